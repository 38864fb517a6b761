# vm: on=6.1/rxe,6.12/rxe needs=store_lock cpus=1
# What docs/ARCHITECTURE.md says of the kernel's locks, under "Ownership": the lock of the descriptor that does the I/O
# is free only when the last write of a killed process is over, however it was sent. Other locks are not proof of that:
# these cases must be free too early, or the test would not see it.
. tests/vm/lib.sh
lock=$(find "$BUILD" -name store_lock -type f -perm -u+x)
[ -n "$lock" ] || skip_all "no store_lock in $BUILD"
command -v dmsetup >/dev/null || skip_all "needs dmsetup"
need_modules dm-mod
disk=$(ram_disk 4 512)
check "a device that can stand still" dmsetup create still --table "0 8192 linear $disk 0" --noudevsync
[ -b /dev/mapper/still ] || dmsetup mknodes still

for case in data data,vm data,pwrite data,uring excl excl,vm excl,pwrite excl,uring; do
    check "$case: held until its writes are over" "$lock" still /run/lock-file $case held
done
for case in file,vm file,uring robust; do
    check "$case: free too early" "$lock" still /run/lock-file $case free
done
done_testing
