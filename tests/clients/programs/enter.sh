# Runs a command with a folder as its root: enter.sh FOLDER [SOURCE TARGET]... -- COMMAND...
#
# Each SOURCE is seen at TARGET, which must exist. Everything that is mounted here is gone when the mount namespace is.
set -e
mount --bind "$1" "$1"
cd "$1"
shift
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs run
while [ "$1" != -- ]; do
  mount --bind "$1" ".$2"
  shift 2
done
shift
# Not chroot: in such a root no sandbox can be made, and Codex runs commands in one.
pivot_root . mnt
cd /
umount --lazy /mnt
exec "$@"
