// void* dlsym(void* handle, const char* name)
//
// glibc answers RTLD_NEXT and RTLD_DEFAULT by looking at the return address of dlsym's caller. A wrapper that calls the
// real function would become that caller, so this one ends in a jump: the real dlsym finds registers, stack and return
// address as if it had been called by the program.

    .text
    .globl  dlsym
    .type   dlsym, @function
    .p2align 4
dlsym:
    .cfi_startproc
    endbr64
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    subq    $8, %rsp                // 16-byte alignment at the call
    .cfi_adjust_cfa_offset 8
    movq    24(%rsp), %rdx          // third argument: our return address
    call    cistern_dlsym_filter    // rax: answer, rdx: where to jump instead, or null
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    testq   %rdx, %rdx
    jz      1f
    jmp     *%rdx
1:
    ret
    .cfi_endproc
    .size   dlsym, . - dlsym

    .section .note.GNU-stack, "", @progbits

// Marks the code as safe for indirect branch tracking and shadow stacks.
    .section .note.gnu.property, "a"
    .p2align 3
    .long   4, 16, 5
    .asciz  "GNU"
    .long   0xc0000002, 4, 3, 0
