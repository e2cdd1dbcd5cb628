// void* dlsym(void* handle, const char* name); dlsym_x86_64.S says why it ends in a jump.

    .text
    .globl  dlsym
    .type   dlsym, %function
    .p2align 4
dlsym:
    .cfi_startproc
    hint    #34                     // bti c
    stp     x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset 29, -32
    .cfi_offset 30, -24
    mov     x29, sp
    stp     x0, x1, [sp, #16]
    mov     x2, x30                 // third argument: our return address
    bl      cistern_dlsym_filter    // x0: answer, x1: where to jump instead, or null
    mov     x9, x0
    mov     x16, x1                 // x16 and x17 may enter a function that begins with "bti c"
    ldp     x0, x1, [sp, #16]
    ldp     x29, x30, [sp], #32
    .cfi_restore 30
    .cfi_restore 29
    .cfi_def_cfa_offset 0
    cbz     x16, 1f
    br      x16
1:
    mov     x0, x9
    ret
    .cfi_endproc
    .size   dlsym, . - dlsym

    .section .note.GNU-stack, "", %progbits

// Marks the code as safe for branch target identification.
    .section .note.gnu.property, "a"
    .p2align 3
    .word   4, 16, 5
    .asciz  "GNU"
    .word   0xc0000000, 4, 1, 0
