/* A plug-in for QEMU's user-mode emulator that counts the guest's instructions exactly.
 *
 * The guest asks for a reading by getpriority(MARK, number), which no kernel knows: the plug-in then prints
 * "MARK number count" to standard error, where count is the number of instructions executed so far.
 *
 * Debian 12 packages QEMU 7.2 without qemu-plugin.h, so what is used of the plug-in interface, version 1, is declared here
 * (QEMU's manual, "TCG Plugins"). For one guest thread: additions are not atomic. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))
enum { API_VERSION = 1, INLINE_ADD_U64 = 0, GETPRIORITY_ON_ARM = 96, MARK = 77 };

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
typedef void (*on_translation)(plugin_id, struct qemu_plugin_tb *);
typedef void (*on_syscall)(plugin_id, unsigned int cpu, int64_t number, uint64_t, uint64_t, uint64_t, uint64_t,
                           uint64_t, uint64_t, uint64_t, uint64_t);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, on_translation);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id, on_syscall);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int operation, void *counter, uint64_t add);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);

EXPORT int qemu_plugin_version = API_VERSION;
static uint64_t executed;

static void translated(plugin_id id, struct qemu_plugin_tb *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, INLINE_ADD_U64, &executed, qemu_plugin_tb_n_insns(block));
}

static void called(plugin_id id, unsigned int cpu, int64_t number, uint64_t which, uint64_t who, uint64_t a3,
                   uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
    (void)id, (void)cpu, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if (number == GETPRIORITY_ON_ARM && which == MARK)
        fprintf(stderr, "MARK %d %llu\n", (int)who, (unsigned long long)executed);
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int count, char **arguments) {
    (void)info, (void)count, (void)arguments;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    return 0;
}
