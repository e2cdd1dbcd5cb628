#include "pool/pool.h"
void leaf() {}
