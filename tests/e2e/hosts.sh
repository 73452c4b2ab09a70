# shellcheck shell=bash
# Hosts that are network namespaces, joined by a bridge, and launchers on them. Sourced with $tessera set.
skipped=77 # As CTest is told.
id=t$$
bridge=$id-bridge
work=$(mktemp -d)
hosts=()

skip() {
  echo "skipped: $1"
  exit $skipped
}

fail() {
  echo "$1"
  tail -n 100 "$work"/*.log
  exit 1
}

cleanup() {
  local host pid
  for host in "${hosts[@]}"; do
    for pid in $(ip netns pids "$id-$host" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null || true; done
    ip netns delete "$id-$host" 2>/dev/null || true
  done
  ip link delete "$bridge" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP

command -v ip >/dev/null || skip 'there is no ip (iproute2)'
((EUID == 0)) || skip 'network namespaces need root'
ip netns add "$id-try" 2>"$work/try" || skip "no network namespace can be made: $(<"$work/try")"
ip netns exec "$id-try" true 2>"$work/try" || { # As in a chroot, whose root is no mount.
  ip netns delete "$id-try"
  skip "no program can be run in a network namespace: $(<"$work/try")"
}
ip netns delete "$id-try"
ip link add "$bridge" type bridge 2>"$work/try" || skip "no bridge can be made: $(<"$work/try")"
ip link set "$bridge" up

address() { echo "10.213.7.$(($1 + 1))"; } # HOST

# make_hosts N: hosts 0 to N-1, which reach each other.
make_hosts() {
  local host
  for ((host = ${#hosts[@]}; host < $1; ++host)); do
    ip netns add "$id-$host"
    hosts+=("$host")
    ip link add "$id-v$host" type veth peer name eth0 netns "$id-$host"
    ip link set "$id-v$host" master "$bridge" up
    on "$host" ip address add "$(address "$host")/24" dev eth0
    on "$host" ip link set eth0 up
    on "$host" ip link set lo up
  done
}

on() { # HOST COMMAND…
  ip netns exec "$id-$1" "${@:2}"
}

cut_off() { ip link set "$id-v$1" down; } # HOST

# launch HOST NAME FLAGS… -- PROGRAM…: a launcher in the background; its output is in $work/NAME.log, its pid in ${pids[NAME]}.
declare -A pids
launch() {
  local host=$1 name=$2
  shift 2
  : >"$work/$name.log"
  on "$host" "$tessera" run --rdzv-endpoint "$(address 0)" "$@" >"$work/$name.log" 2>&1 &
  pids[$name]=$!
}

# await NAME TEXT: until the launcher's output has it.
await() {
  local deadline=$((SECONDS + 60))
  until grep -q -- "$2" "$work/$1.log"; do
    ((SECONDS < deadline)) || fail "'$2' did not come from $1"
    sleep 0.05
  done
}

# expect_end NAME CODE SECONDS: it ends so, within that time.
expect_end() {
  local code=0 start=$SECONDS
  wait "${pids[$1]}" || code=$?
  ((code == $2)) || fail "$1 ended with $code instead of $2"
  ((SECONDS - start <= $3)) || fail "$1 took $((SECONDS - start)) s to end, more than $3"
}

expect_nobody() { # HOST: no process is left there.
  local deadline=$((SECONDS + 10))
  while [[ -n $(ip netns pids "$id-$1") ]]; do
    ((SECONDS < deadline)) || fail "processes are left on host $1: $(ip netns pids "$id-$1" | xargs ps -fp)"
    sleep 0.05
  done
}

expect_lines() { # NAME LINE…: among its output.
  local name=$1 line
  shift
  for line in "$@"; do grep -qxF -- "$line" "$work/$name.log" || fail "$name has no line '$line'"; done
}
