// TODO: later
const char* here = "/home/somebody/x";
const char* host = "crates.org";
