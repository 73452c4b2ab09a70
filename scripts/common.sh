# shellcheck shell=bash disable=SC2154,SC2034  # $cache is for other parts; $root comes from ./tessera.
# Words, long steps and the lock.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/tessera

say() { printf 'tessera: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# quietly WHAT COMMAND…: output goes to a log; a line every ten seconds shows that it is alive.
quietly() {
  local what=$1 log pid start=$SECONDS told=0
  shift
  mkdir -p "$root/build/logs"
  log=$root/build/logs/$(tr -cs 'A-Za-z0-9' '-' <<<"$what").log
  say "$what"
  "$@" >"$log" 2>&1 &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS - start >= told + 10)); then
      told=$((SECONDS - start))
      say "… still at it after ${told} s: $(tail -n 1 "$log" | tr -d '\r' | cut -c 1-100)"
    fi
  done
  wait "$pid" || {
    tail -n 30 "$log" >&2
    die "failed: $what; the whole log is in $log"
  }
}

# One build at a time. The lock ends with the process, or with unlock.
lock() {
  mkdir -p "$root/build"
  have flock || return 0
  exec 9>"$root/build/.lock"
  flock --nonblock 9 || {
    say "another build is running in $root; waiting for it"
    flock 9
  }
}
unlock() { exec 9>&-; }
