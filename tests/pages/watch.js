// What is wrong with a page: errors that nothing caught, what its console says, and requests.
const complaints = [];
for (const kind of ["error", "unhandledrejection", "securitypolicyviolation"])
  addEventListener(kind, event => complaints.push(`${kind}: ${event.message ?? event.reason ??
                                                   event.blockedURI}`));
for (const kind of ["error", "warn"])
  console[kind] = (...words) => complaints.push(words.join(" "));
