(async () => {
  const plot = document.getElementById("plot");
  const all = (found, of = document) => [...of.querySelectorAll(found)];
  const choose = (choice, value) =>
    all(`input[name=${choice}]`).find(button => button.value === value).click();
  const offered = choice => all(`input[name=${choice}]`)
    .filter(button => button.checkVisibility()).map(button => button.value);
  const names = () => all(".legendtext").map(name => name.textContent);
  while (!(READY)) await new Promise(done => setTimeout(done, 20));
  let told;
  try { told = await (async () => { SCRIPT })(); } catch (error) { complaints.push(String(error)); }
  const requests = performance.getEntriesByType("resource").map(entry => entry.name);
  document.body.append(Object.assign(document.createElement("pre"), { id: "told",
    textContent: JSON.stringify({ told, complaints: [...complaints, ...requests] }) }));
})();
