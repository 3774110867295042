#!/usr/bin/env bash
# Installs or removes a service: setup.sh install|uninstall edge|aggregator (the Makefile's targets call it).
#   PYTHON=python3.11  of the service's own environment
#   WHEELS=folder      install from wheels in a folder, setuptools among them, without a network
#   APT=1              let apt-get install what is missing
#   PURGE=1            uninstall: remove data, configuration and user as well
#   DESTDIR=folder     work in a folder instead of this machine, without root's rights; nothing is started there
# Every step may be repeated: what was interrupted is mended by running it again.
set -euo pipefail
umask 022

sources=$(cd "$(dirname "$0")/.." && pwd)
PYTHON=${PYTHON:-python3.11} WHEELS=${WHEELS:-} APT=${APT:-} PURGE=${PURGE:-} DESTDIR=${DESTDIR:-}
[[ -z $DESTDIR ]] || DESTDIR=$(realpath -m "$DESTDIR")
action=${1:-} part=${2:-}
service=auricle-$part
configuration=$DESTDIR/etc/auricle
unit=$DESTDIR/etc/systemd/system/$service.service
program=$DESTDIR/usr/local/bin/$service
environments=$DESTDIR/opt/$service
case $part in
edge) user=auricle extra=edge,mqtt templates=(edge.toml edge.env) own=(model.auricle) ;;
aggregator) user=auricle-aggregator extra=server templates=(aggregator.env) own=() ;;
*) echo "usage: $0 install|uninstall edge|aggregator" >&2 && exit 2 ;;
esac
state=$DESTDIR/var/lib/$user

fail() {
    echo "$service: $*" >&2
    exit 1
}

on_this_machine() { [[ -z $DESTDIR ]]; }

# systemctl, where systemd runs and this machine is meant.
control() {
    ! on_this_machine || [[ ! -d /run/systemd/system ]] || systemctl "$@"
}

has_library() { PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep -q "$1"; }

# Say which packages are missing, the indispensable and the useful ones.
missing_packages() {
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || needed+=("$PYTHON" "$PYTHON-venv")
    command -v systemd-sysusers >/dev/null || needed+=(systemd)
    [[ $part == edge ]] || return 0
    command -v arecord >/dev/null || useful+=(alsa-utils)
    has_library libportaudio.so.2 || useful+=(libportaudio2)
    [[ $(uname -m) == armv7l ]] || return 0
    # No wheels for 32-bit ARM: these come from the distribution, and OpenBLAS makes its NumPy quick.
    local module
    for module in numpy cffi soundfile; do
        "$PYTHON" -c "import $module" 2>/dev/null || needed+=("python3-$module")
    done
    has_library libopenblas.so.0 || useful+=(libopenblas0-pthread)
}

check_packages() {
    local needed=() useful=()
    missing_packages
    ((${#needed[@]} + ${#useful[@]})) || return 0
    local command="apt-get install --no-install-recommends ${needed[*]} ${useful[*]}"
    if [[ -n $APT ]] && on_this_machine; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive $command -y -qq
        return
    fi
    command="  sudo ${command//  / }"$'\n'"(or run this again with APT=1)"
    ((!${#needed[@]})) || fail "${needed[*]}: missing. Install them first:"$'\n'"$command"
    printf '%s: %s: missing; without them it cannot listen, or is slow:\n%s\n' "$service" "${useful[*]}" "$command" >&2
}

add_user() {
    mkdir -p "$DESTDIR/etc"
    {
        echo "u $user - \"Auricle $part\" /var/lib/$user"
        [[ $part != edge ]] || echo "m $user audio"
    } | systemd-sysusers ${DESTDIR:+--root="$DESTDIR"} -
    mkdir -p "$state"
    chmod 0700 "$state"
    ! on_this_machine || chown "$user:" "$state"
}

# Two environments take turns, so that the one in use stays whole until the new one is complete and on the disk.
build_environment() {
    local old new=a site=() index=()
    old=$(readlink "$environments/current" || true)
    [[ $old != a ]] || new=b
    [[ $(uname -m) != armv7l ]] || site=(--system-site-packages)
    [[ -z $WHEELS ]] || index=(--no-index --find-links "$(realpath -e "$WHEELS")")
    rm -rf "${environments:?}/$new"
    "$PYTHON" -m venv "${site[@]}" "$environments/$new"
    # Built from a copy, so that the sources keep no traces and old builds none of theirs.
    copy=$(mktemp -d)
    trap 'rm -rf "$copy"' EXIT
    cp "$sources"/{pyproject.toml,README.md,LICENSE} "$copy"
    for package in "$sources"/*/__init__.py; do
        cp -r "${package%/*}" "$copy"
    done
    "$environments/$new/bin/python" -m pip install --quiet --disable-pip-version-check --no-warn-script-location \
        "${index[@]}" --constraint "$sources/constraints.txt" "${copy}[$extra]"
    sync -f "$environments"
    ln -sfn "$new" "$environments/.current"
    mv -T "$environments/.current" "$environments/current"
}

# Write standard input to a file, whole or not at all.
place() { # TARGET MODE
    mkdir -p "${1%/*}"
    install -m "$2" /dev/stdin "$1.part"
    sync "$1.part"
    mv -T "$1.part" "$1"
}

configure() {
    local name mode
    for name in "${templates[@]}"; do
        mode=0644
        [[ $name != *.env ]] || mode=0600
        if [[ -e $configuration/$name ]]; then
            cmp -s "$sources/systemd/$name" "$configuration/$name.default" ||
                echo "$configuration/$name is kept; what is new stands in $name.default beside it"
        else
            sed "s/^name = .*/name = \"$(uname -n)\"/" "$sources/systemd/$name" | place "$configuration/$name" $mode
        fi
        place "$configuration/$name.default" 0644 <"$sources/systemd/$name"
    done
}

install_service() {
    check_packages
    add_user
    mkdir -p "$environments"
    build_environment
    mkdir -p "${program%/*}"
    ln -sfn "/opt/$service/current/bin/$service" "$program"
    configure
    place "$unit" 0644 <"$sources/systemd/$service.service"
    control daemon-reload
    control try-restart "$service"
    for old in a b; do
        [[ $(readlink "$environments/current") == "$old" ]] || rm -rf "${environments:?}/$old"
    done
    echo "$service is installed."
    "next_steps_$part"
}

next_steps_edge() {
    cat <<END
What is left:
  1. the microphone:          sudo -u auricle auricle-edge devices
  2. settings:                sudo nano /etc/auricle/edge.toml
     and, to join a fleet, what its `auricle-aggregator invite` printed:  sudo auricle-edge join LINK
     May the fleet read your words for sounds? They stay here, unless you set share_names = true.
  3. start it, now and at every boot:  sudo systemctl enable --now auricle-edge
  4. teach it a sound:        sudo auricle-edge record --label doorbell
  5. see how it does:         sudo -u auricle auricle-edge status;  journalctl -u auricle-edge
END
    if on_this_machine && ! grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
        echo 'This kernel counts no memory per service, so its limit has no effect. On Raspberry Pi OS, append'
        echo '"cgroup_enable=memory" to the line in /boot/firmware/cmdline.txt and restart.'
    fi
}

next_steps_aggregator() {
    cat <<END
What is left:
  1. where it listens (by default this machine alone), and TLS:  sudo nano /etc/auricle/aggregator.env
  2. start it, now and at every boot:  sudo systemctl enable --now auricle-aggregator
  3. its tokens:  sudo -u auricle-aggregator auricle-aggregator tokens --data /var/lib/auricle-aggregator
  4. a public set:  auricle-aggregator publish public.safetensors --url http://127.0.0.1:8470 --token ADMIN
     (with --tls auto:  https://, and --authority /var/lib/auricle-aggregator/tls/authority.pem)
  5. devices:  sudo -u auricle-aggregator auricle-aggregator invite --data /var/lib/auricle-aggregator
END
}

uninstall_service() {
    [[ ! -e $unit ]] || control disable --now "$service"
    rm -rf "$unit" "$program" "$environments"
    control daemon-reload
    local kept=("$state") name
    for name in "${templates[@]}"; do
        rm -f "$configuration/$name.default" "$configuration/$name.part"
        kept+=("$configuration/$name")
    done
    for name in "${own[@]}"; do kept+=("$configuration/$name"); done
    if [[ -z $PURGE ]]; then
        echo "$service is removed. Kept, unless you run this with PURGE=1: ${kept[*]}"
        return
    fi
    rm -rf "${kept[@]}"
    rmdir --ignore-fail-on-non-empty "$configuration" 2>/dev/null || true
    ! on_this_machine || ! getent passwd "$user" >/dev/null || userdel "$user"
    echo "$service is removed with its data, its configuration and its user."
}

! on_this_machine || ((!EUID)) || fail "needs root's rights: sudo make $action-$part"
case $action in
install) install_service ;;
uninstall) uninstall_service ;;
*) fail "unknown action '$action': install or uninstall" ;;
esac
