#!/usr/bin/env bash
# Installs or removes a service: setup.sh install|uninstall edge|aggregator (the Makefile's targets call it).
# setup.sh check edge|aggregator  says which Python it would take and which packages are missing, and changes nothing.
#   PYTHON=python3.11  of the service's own environment; by default the system's own where that suits
#   WHEELS=folder      install from wheels in a folder without a network: from a checkout setuptools must be among them,
#                      elsewhere auricle's own
#   APT=1              let apt-get install what is missing
#   PURGE=1            uninstall: remove data, configuration and user as well
#   UI=1               edge: the owner's page too, a service of its own, kept at every later installation
#   WYOMING=1          edge: taught words as wake words for Home Assistant too, in the same way
#   BACKUPS=1          aggregator: a copy of its data every night, by a timer, kept at every later installation
#   ALERTS=folder      aggregator: Prometheus' alert rules, into this folder, kept at every later installation
#   DESTDIR=folder     work in a folder instead of this machine, without root's rights; nothing is started there
# Every step may be repeated: what was interrupted is mended by running it again.
set -euo pipefail
umask 022

sources=$(cd "$(dirname "$0")/.." && pwd)
PYTHON=${PYTHON:-} WHEELS=${WHEELS:-} APT=${APT:-} PURGE=${PURGE:-} DESTDIR=${DESTDIR:-} ALERTS=${ALERTS:-}
[[ -z $DESTDIR ]] || DESTDIR=$(realpath -m "$DESTDIR")
action=${1:-} part=${2:-}
service=auricle-$part
configuration=$DESTDIR/etc/auricle
units=$DESTDIR/etc/systemd/system
program=$DESTDIR/usr/local/bin/$service
environments=$DESTDIR/opt/$service
case $part in
edge) user=auricle extra=edge,mqtt,private templates=(edge.toml edge.env) own=(model.auricle) ;;
aggregator) user=auricle-aggregator extra=server templates=(aggregator.env nginx.conf nginx-servers.conf) own=() ;;
*) echo "usage: $0 install|uninstall|check edge|aggregator" >&2 && exit 2 ;;
esac
state=$DESTDIR/var/lib/$user
alerts=$environments/alerts # where they were wanted

# Units beside the service's own: those that were asked for now, or at an earlier installation.
asked=() left_out=()
ask() { # OPTION'S-VALUE EXTRA UNIT..
    [[ -n $1 || -e $units/$3 ]] || return 0
    # A package that brings no such unit brings not what it needs either: what an earlier installation made of it goes.
    if [[ $action == install && ! -e $sources/systemd/$3 ]]; then
        left_out+=("${@:3}")
        return 0
    fi
    extra+=${2:+,$2}
    asked+=("${@:3}")
}
case $part in
edge)
    ask "${UI:-}" ui auricle-edge-page.service
    ask "${WYOMING:-}" wyoming auricle-edge-wyoming.service
    ;;
aggregator)
    asked+=(auricle-aggregator-proxy.service)
    ask "${BACKUPS:-}" "" auricle-aggregator-backup.timer auricle-aggregator-backup.service
    # Its state is elsewhere: that needs further packages.
    ! grep -qsE '^AURICLE_(DATABASE|STORE)=' "$configuration/aggregator.env" || extra+=,scale
    ;;
esac

is_asked() { [[ " ${asked[*]} " == *" $1 "* ]]; }

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

# That of the programs, not of the kernel: a 32-bit system may have a 64-bit kernel.
is_arm32() { [[ $(dpkg --print-architecture 2>/dev/null || uname -m) == arm@(hf|el|v6l|v7l) ]]; }

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

suits() { [[ $(version_of "$1") == 3.1[1-4] ]]; }

# Refuse a processor for which no runtime exists, whatever its Python.
check_system() {
    [[ $part != edge || $(uname -m) != armv6l ]] ||
        fail "this processor (ARMv6: Pi 1, Zero, Zero W) lacks instructions that TensorFlow Lite's library needs (NEON,
  VFPv4); take a Pi 2, a Zero 2 W or a later board (docs/pi.md, \"Which system\")"
}

refuse_python() {
    fail "$1 is Python $(version_of "$1"); this needs 3.11, 3.12, 3.13 or 3.14. Raspberry Pi OS Bookworm and Trixie
  (Debian 12 and 13) have one; another one on this machine: PYTHON=name"
}

# Find the Python of the service: the one that was named, or the first that suits; the system's own where there is none.
choose_python() {
    local candidate
    if [[ -z $PYTHON ]]; then
        PYTHON=python3
        for candidate in python3.14 python3.13 python3.12 python3.11 python3; do
            ! suits "$candidate" || PYTHON=$candidate
        done
    fi
    [[ -z $(version_of "$PYTHON") ]] || suits "$PYTHON" || refuse_python "$PYTHON"
}

# Say which packages are missing, the indispensable and the useful ones.
missing_packages() {
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || needed+=("$PYTHON" "$PYTHON-venv")
    command -v systemd-sysusers >/dev/null || needed+=(systemd)
    if [[ $part == aggregator ]]; then
        command -v nginx >/dev/null || needed+=(nginx-light)
        return 0
    fi
    command -v arecord >/dev/null || useful+=(alsa-utils)
    is_arm32 || return 0
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
        choose_python # the system's own may have come with them
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

# A checkout is built from a copy, so that it keeps no traces and old builds none of theirs. Elsewhere a wheel is taken.
copy_sources() {
    copy=
    if [[ ! -e $sources/pyproject.toml ]]; then
        [[ -n $WHEELS ]] || fail "this is no checkout, so it takes auricle's wheel: WHEELS=folder, with all it needs"
        return
    fi
    copy=$(mktemp -d)
    trap 'rm -rf "$copy"' EXIT
    cp -r "$sources"/{pyproject.toml,README.md,LICENSE,CHANGELOG.md,constraints.txt,systemd,docs,examples} "$copy"
    local package
    for package in "$sources"/*/__init__.py; do
        cp -r "${package%/*}" "$copy"
    done
}

# Install packages with pip. On a 32-bit system pip is told so: beside a 64-bit kernel it takes that one's word for the
# processor, and chooses by it which packages are needed, and which wheels.
add_packages() { # ENVIRONMENT WORD..
    local start='import runpy; runpy.run_module("pip", run_name="__main__")' platform=()
    if is_arm32; then
        start="import platform; platform.machine = lambda: 'armv7l'; $start"
        platform=(_PYTHON_HOST_PLATFORM=linux-armv7l)
    fi
    env "${platform[@]}" "$1/bin/python" -c "$start" install --quiet --disable-pip-version-check \
        --no-warn-script-location --constraint "$sources/constraints.txt" "${@:2}"
}

# Two environments take turns, so that the one in use stays whole until the new one is complete and on the disk.
build_environment() {
    local old new=a site=() index=()
    old=$(readlink "$environments/current" || true)
    [[ $old != a ]] || new=b
    ! is_arm32 || site=(--system-site-packages)
    [[ -z $WHEELS ]] || index=(--no-index --find-links "$(realpath -e "$WHEELS")")
    rm -rf "${environments:?}/$new"
    "$PYTHON" -m venv "${site[@]}" "$environments/$new"
    copy_sources
    add_packages "$environments/$new" "${index[@]}" "${copy:-auricle}[$extra]"
    # The runtime; a package that it names and does not need has no wheel for 32-bit ARM.
    [[ $part != edge ]] || ! is_arm32 ||
        add_packages "$environments/$new" "${index[@]}" --no-deps pymicro-wakeword
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

place_alerts() {
    if [[ -n $ALERTS ]]; then
        remove_alerts
        ln -sfn "$(realpath -m "$ALERTS")" "$alerts"
    fi
    [[ ! -L $alerts ]] ||
        place "$DESTDIR$(readlink "$alerts")/auricle.rules.yml" 0644 <"$sources/systemd/auricle.rules.yml"
}

remove_alerts() {
    [[ ! -L $alerts ]] || rm -f "$DESTDIR$(readlink "$alerts")/auricle.rules.yml"
}

# The nightly copy reads the environment's variables, and no options of the server.
require_copied() {
    ! is_asked auricle-aggregator-backup.timer || ! grep -qsE '^AURICLE_OPTIONS=.*--(database|store)' \
        "$configuration/aggregator.env" ||
        fail "$configuration/aggregator.env names a database or a store in AURICLE_OPTIONS, which the nightly copy" \
            "does not read: write AURICLE_DATABASE=... and AURICLE_STORE=... there instead"
}

check_service() {
    check_system
    require_copied
    choose_python
    check_packages
}

install_service() {
    check_service
    add_user
    mkdir -p "$environments"
    build_environment
    mkdir -p "${program%/*}"
    ln -sfn "/opt/$service/current/bin/$service" "$program"
    configure
    local name
    for name in "$service.service" "${asked[@]}"; do
        place "$units/$name" 0644 <"$sources/systemd/$name"
    done
    for name in "${left_out[@]}"; do
        echo "$name is left out, and removed where it was: this package brings neither it nor what it needs." \
            "A checkout does: make install-$part UI=1"
        control disable --now "$name" || echo "$name could not be stopped; it is gone at the next start" >&2
        rm -f "$units/$name"
    done
    place_alerts
    control daemon-reload
    control try-restart "$service.service" "${asked[@]}"
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
     and, to join a fleet, what "auricle-aggregator invite" printed there:  sudo auricle-edge join LINK
     May the fleet read your words for sounds? They stay here, unless you set share_names = true.
  3. start it, now and at every boot:  sudo systemctl enable --now auricle-edge
  4. teach it a sound:        sudo auricle-edge record --label doorbell
  5. see how it does:         sudo -u auricle auricle-edge status;  journalctl -u auricle-edge
END
    if is_asked auricle-edge-page.service; then
        echo '  6. the owner'"'"'s page:        sudo systemctl enable --now auricle-edge-page;  http://127.0.0.1:8471 here, and'
        echo "     from another machine after:  ssh -L 8471:localhost:8471 USER@$(uname -n)"
    fi
    if is_asked auricle-edge-wyoming.service; then
        echo '  wake words for Home Assistant:  sudo systemctl enable --now auricle-edge-wyoming  (port 10400 here)'
    fi
    if on_this_machine && ! grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
        echo 'This kernel counts no memory per service, so its limit has no effect. On Raspberry Pi OS, append'
        echo '"cgroup_enable=memory" to the line in /boot/firmware/cmdline.txt and restart.'
    fi
}

next_steps_aggregator() {
    cat <<END
What is left:
  1. settings:  sudo nano /etc/auricle/aggregator.env
  2. start it, now and at every boot, with nginx in front, which speaks TLS on port 8470:
       sudo systemctl enable --now auricle-aggregator auricle-aggregator-proxy
  3. its tokens:  sudo -u auricle-aggregator auricle-aggregator tokens --data /var/lib/auricle-aggregator
  4. a public set:  auricle-aggregator publish public.safetensors --url https://127.0.0.1:8470 --token ADMIN \\
       --authority /var/lib/auricle-aggregator/tls/authority.pem
  5. devices:  sudo -u auricle-aggregator auricle-aggregator invite --data /var/lib/auricle-aggregator
END
    if is_asked auricle-aggregator-backup.timer; then
        echo '  6. a copy every night:  sudo systemctl enable --now auricle-aggregator-backup.timer'
        echo '     into /var/lib/auricle-aggregator-backups; for another disk, mount it there'
    fi
    if [[ -L $alerts ]]; then
        echo "  The alert rules are $(readlink "$alerts")/auricle.rules.yml; name them among Prometheus' rule_files."
    fi
}

uninstall_service() {
    local kept=("$state") name
    for name in "${asked[@]}" "$service.service"; do
        [[ ! -e $units/$name ]] || control disable --now "$name"
        rm -f "$units/$name"
    done
    remove_alerts
    rm -rf "$program" "$environments"
    control daemon-reload
    for name in "${templates[@]}"; do
        rm -f "$configuration/$name.default" "$configuration/$name.part"
        kept+=("$configuration/$name")
    done
    for name in "${own[@]}"; do kept+=("$configuration/$name"); done
    if [[ -z $PURGE ]]; then
        echo "$service is removed. Kept, unless you run this with PURGE=1 (of a package: dpkg --purge): ${kept[*]}"
        return
    fi
    rm -rf "${kept[@]}"
    rmdir --ignore-fail-on-non-empty "$configuration" 2>/dev/null || true
    ! on_this_machine || ! getent passwd "$user" >/dev/null || userdel "$user"
    echo "$service is removed with its data, its configuration and its user."
    # The last that is left of the data: nobody but the operator removes it.
    [[ ! -d $state-backups ]] || echo "Its copies stay in $state-backups."
}

[[ $action == check ]] || ! on_this_machine || ((!EUID)) || fail "needs root's rights: sudo make $action-$part"
case $action in
install) install_service ;;
uninstall) uninstall_service ;;
check) check_service && echo "$service can be installed, with $PYTHON ($(version_of "$PYTHON"))" ;;
*) fail "unknown action '$action': install, uninstall or check" ;;
esac
