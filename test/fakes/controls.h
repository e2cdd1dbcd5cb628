#pragma once
// Names of all control functions of sim.h: for the export maps and the shim.

#define SIM_CONTROLS(X)                                                                                                \
    X(sim_submit)                                                                                                      \
    X(sim_gate_create)                                                                                                 \
    X(sim_gate_open)                                                                                                   \
    X(sim_gate_destroy)                                                                                                \
    X(sim_now)                                                                                                         \
    X(sim_advance)                                                                                                     \
    X(sim_auto_advance)                                                                                                \
    X(sim_unfinished)                                                                                                  \
    X(sim_kernel_duration)                                                                                             \
    X(sim_copy_duration)                                                                                               \
    X(sim_stream_limit)                                                                                                \
    X(sim_race_window)                                                                                                 \
    X(sim_blocked_threads)                                                                                             \
    X(sim_captures_open)                                                                                               \
    X(sim_wait_host_functions)                                                                                         \
    X(sim_check)                                                                                                       \
    X(sim_fill)                                                                                                        \
    X(sim_claim)                                                                                                       \
    X(sim_claim_pinned)                                                                                                \
    X(sim_disclaim)                                                                                                    \
    X(sim_note_free_begin)                                                                                             \
    X(sim_note_free_end)                                                                                               \
    X(sim_allow_late_waits)                                                                                            \
    X(sim_program_begin)                                                                                               \
    X(sim_program_end)                                                                                                 \
    X(sim_violations)                                                                                                  \
    X(sim_report)                                                                                                      \
    X(sim_clear_violations)                                                                                            \
    X(sim_abort_on_violation)                                                                                          \
    X(sim_stale_queries)                                                                                               \
    X(sim_balance)                                                                                                     \
    X(sim_reset)                                                                                                       \
    X(sim_fail)                                                                                                        \
    X(sim_clear_failures)                                                                                              \
    X(sim_set_attribute)                                                                                               \
    X(sim_set_total_mb)                                                                                                \
    X(sim_set_peer)                                                                                                    \
    X(sim_poison)                                                                                                      \
    X(sim_fault)                                                                                                       \
    X(sim_calls)                                                                                                       \
    X(sim_calls_total)                                                                                                 \
    X(sim_clear_calls)                                                                                                 \
    X(sim_env_at_init)
