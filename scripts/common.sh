# shellcheck shell=bash disable=SC2154,SC2034  # $cache is for other parts; $root comes from ./tessera.
# Words, long steps and locks.

cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tessera

say() { printf 'tessera: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}
misused() {
  say "$*"
  exit 2
}
have() { command -v "$1" >/dev/null 2>&1; }

# start_group COMMAND…: starts it in a process group of its own, $group, which an interrupt of ours ends as a whole. The group keeps
# our locks: if we are killed, the next start waits for whatever is still being written.
start_group() {
  set -m
  "$@" </dev/null &
  group=$!
  set +m
  end_group_with_us
}

end_group_with_us() {
  trap 'end_group "$group"; exit 130' INT
  trap 'end_group "$group"; exit 143' TERM
}

end_group() { # PROCESS-GROUP
  local i
  kill -TERM -- "-$1" 2>/dev/null
  for ((i = 0; i < 50; ++i)); do
    kill -0 -- "-$1" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL -- "-$1" 2>/dev/null
}

# wait_group: waits for its end; the exit code.
wait_group() {
  local code=0
  wait "$group" || code=$?
  trap - INT TERM
  return "$code"
}

# in_group COMMAND…: runs it to its end.
in_group() {
  start_group "$@"
  wait_group
}

# quietly WHAT COMMAND…: the output goes to a log; a line every ten seconds shows that it is alive.
quietly() {
  local what=$1 log start=$SECONDS told=0
  shift
  mkdir -p "$root/build/logs"
  log=$root/build/logs/$(tr -cs 'A-Za-z0-9' '-' <<<"$what").log
  say "$what"
  start_group "$@" >"$log" 2>&1
  while kill -0 "$group" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS - start >= told + 10)); then
      told=$((SECONDS - start))
      say "… still at it after ${told} s: $(tail -n 1 "$log" | tr -d '\r' | cut -c 1-100)"
    fi
  done
  wait_group && return
  tail -n 30 "$log" >&2
  say "failed: $what; the whole log is in $log"
  return 1
}

# lock FILE-DESCRIPTOR FILE WHAT: one at a time. A lock ends with the process, or with unlock.
lock() {
  mkdir -p "$(dirname "$2")" 2>/dev/null || true
  [[ -w $(dirname "$2") ]] || die "cannot write to $(dirname "$2"); work in a checkout and with a cache folder of your own"
  have flock || return 0
  eval "exec $1>\"\$2\""
  flock --nonblock "$1" || {
    say "another process is busy with $3; waiting for it"
    flock "$1"
  }
}
unlock() { eval "exec $1>&-"; }

lock_build() { lock 9 "$root/build/.lock" "the build in $root"; }
unlock_build() { unlock 9; }
lock_cache() { lock 8 "$cache/.lock" "$cache"; }
unlock_cache() { unlock 8; }
