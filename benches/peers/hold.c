/* Answers the CPUID instructions of a library as a processor with AVX2 and without AVX-512, AVX-VNNI and AMX does.
   `hold.py` makes a copy of the library in which these instructions are undefined ones, so that each comes here as SIGILL.
   Build: cc -O2 -shared -fPIC -o hold.so hold.c; use: LD_PRELOAD=hold.so PROGRAM */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>

static void answer(int signal_number, siginfo_t *info, void *context) {
    (void)info;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)r[REG_RIP];
    if (at[0] != 0x0f || at[1] != 0x0b) {
        signal(signal_number, SIG_DFL);
        return;
    }
    unsigned leaf = r[REG_RAX], sub = r[REG_RCX], a, b, c, d;
    __cpuid_count(leaf, sub, a, b, c, d);
    if (leaf == 7 && sub == 0) {
        b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31); /* AVX-512 F, DQ, IFMA, PF, ER, CD, BW, VL */
        c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14); /* AVX-512 VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ */
        d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25); /* AVX-512 of 4 rows, VP2INTERSECT, FP16; AMX */
    } else if (leaf == 7 && sub == 1) {
        a &= ~(1u << 4 | 1u << 5 | 1u << 21 | 1u << 23); /* AVX-VNNI, AVX-512 BF16, AMX FP16, AVX-IFMA */
        d &= ~(1u << 4 | 1u << 5 | 1u << 8 | 1u << 10 | 1u << 19); /* AVX-VNNI-INT8, AVX-NE-CONVERT, AMX-COMPLEX, AVX-VNNI-INT16, AVX10 */
    } else if (leaf == 0x1d || leaf == 0x1e || leaf == 0x24) { /* AMX, AVX10 */
        a = b = c = d = 0;
    }
    r[REG_RAX] = a, r[REG_RBX] = b, r[REG_RCX] = c, r[REG_RDX] = d, r[REG_RIP] += 2;
}

__attribute__((constructor)) static void hold(void) {
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGILL, &action, 0);
}
