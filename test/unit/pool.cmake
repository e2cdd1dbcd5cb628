cistern_catch_test(unit_pool
    SOURCES
        pool_arena.cpp
        pool_captures.cpp
        pool_counters.cpp
        pool_index.cpp
        pool_reuse_order.cpp
        pool_slab.cpp
    LIBS cistern_pool)
