"""The columns of the machine code's table that the report adds up, by what it calls them."""

TABLE = "instructions.csv"
GROUPS = {
    "multiply": ["ffma", "dfma", "tensor"],
    "global": ["global_loads_32", "global_loads_64", "global_loads_128"],
    "shared": ["shared_loads_32", "shared_loads_64", "shared_loads_128"],
}
