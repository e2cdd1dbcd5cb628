#pragma once
// All exported driver names. ENTRY(exported name, base name, version of this ABI, plain | ptsz | ptds).
// cuGetProcAddress, the call counts and the export maps are generated from these lists.

#include "test/fakes/table_modelled.h"
#include "test/fakes/table_names.h"

#define SIM_ALL_ENTRIES(ENTRY) SIM_MODELLED(ENTRY) SIM_NAMES_ONLY(ENTRY)

namespace fake {

enum class Variant : unsigned char { plain, ptsz, ptds };

enum class Fn : unsigned short {
#define X(name, base, version, variant) name,
    SIM_ALL_ENTRIES(X)
#undef X
        count_
};

} // namespace fake
