# Doxygen's view of our comments: lines indented by three or more spaces are code, as in the headers' examples; a comment behind a
# member or an enumerator describes it, with the lines below that go on. No line is added, so that Doxygen's line numbers are right.
function is_code(line) { return line ~ /^ *\/\/\/   +[^ ]/ }
function is_blank(line) { return line ~ /^ *\/\/\/ *$/ }
# Other comments behind code: of includes, of ends of namespaces.
function is_trailing(line) { return line !~ /\/\/ NOLINT/ && (line ~ /^ +[^ \/#}].*  \/\/ / || line ~ /^ +} [a-z_]+;  \/\/ /) }
function goes_on(line) { return line ~ /^ +\/\/ / }
{ lines[NR] = $0 }
END {
  for (i = 1; i <= NR; ++i) {
    line = lines[i]
    if (is_blank(line) && is_code(lines[i + 1]) && !inside) {
      line = line " @code{.cpp}"
      inside = 1
    } else if (inside && !is_code(line) && !(is_blank(line) && is_code(lines[i + 1]))) {
      inside = 0
      if (is_blank(line)) line = line " @endcode"
    } else if (inside && lines[i + 1] !~ /^ *\/\/\//) {
      line = line "\n/// @endcode"  # The comment ends here; the only line that is added.
      inside = 0
    }
    behind = is_trailing(line) || (behind && goes_on(line))
    if (behind) sub(/\/\/ /, "///< ", line)
    print line
  }
}
