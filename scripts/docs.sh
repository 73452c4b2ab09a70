# shellcheck shell=bash disable=SC2154  # $root and others come from ./tessera and its other parts.
# The documentation as a static site, in build/site.

# Named after what is in it, so that other versions are another folder.
site_environment() { echo "$cache/site-$(sha256sum <"$root/scripts/site/requirements.txt" | cut -c 1-12)"; }

fill_site() {
  index_has "$1" mkdocs-material || die "mkdocs-material, which makes the site, cannot be installed: the package index does not answer.
The pages in docs/ can be read without it."
  quietly "installing mkdocs-material" pip_install "$1" --no-deps --requirement "$root/scripts/site/requirements.txt"
}

# read_headers WORK: the public headers as XML in WORK/xml. A wrong comment is an error, and so is a public name without one.
read_headers() {
  local missing
  rm -rf "$1/xml"
  (cd "$root" && SITE_WORK=$1 doxygen scripts/site/Doxyfile) || die "doxygen failed"
  [[ ! -s $1/warnings ]] || die "doxygen complains about comments in the public headers:
$(sed "s#$root/##" "$1/warnings")"
  missing=$(PYTHONDONTWRITEBYTECODE=1 python3 "$root/scripts/site/undocumented.py" "$1/xml") || die "these public names have no comment:
$missing"
}

run_docs() {
  local site work=$root/build/site-work environment
  site=$root/build/site
  if [[ ${1-} == --to ]]; then
    [[ -n ${2-} && $2 != -* ]] || misused "--to requires a folder: ./tessera docs --to DIR"
    site=$(realpath -m "$2")
    shift 2
  fi
  (($# == 0)) || misused "unknown flag '$1'; usage: ./tessera docs [--to DIR]"
  lock_build
  need docs
  environment=$(site_environment)
  virtual_environment "$environment" fill_site
  mkdir -p "$work"
  read_headers "$work"
  # mkdocs' own advertisements and Python's cache are nobody's business here.
  (cd "$root" && SITE_XML=$work/xml NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true PYTHONDONTWRITEBYTECODE=1 \
    "$environment/bin/mkdocs" build --strict --quiet --config-file "$root/mkdocs.yml" --site-dir "$site") >&2 || die "the site could not be made"
  unlock_build
  say "open $site/index.html; the search needs a server: python3 -m http.server --bind 127.0.0.1 --directory $site"
}
