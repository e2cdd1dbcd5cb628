// dlsym for the small preload objects of the tests (x86-64 only). A look-up that is not for them must see the caller's
// own return address, because RTLD_NEXT and RTLD_DEFAULT depend on who asks: so it is a jump, not a call.
    .text
    .globl dlsym
    .type dlsym, @function
dlsym:
    endbr64
    push %rdi
    push %rsi
    sub $8, %rsp
    call doors_target
    add $8, %rsp
    pop %rsi
    pop %rdi
    jmp *%rax
    .size dlsym, .-dlsym
    .section .note.GNU-stack, "", @progbits
