#!/bin/bash
# Prints what a completion of tools/completion offers for the last of these words, a line each:
#   complete.sh COMPLETION PROGRAM WORD...
# The helpers of bash-completion are replaced by short ones, so that it need not be installed.
set -u
typed=("${@:2}")

_init_completion() {
	words=("${typed[@]}")
	cword=$((${#words[@]} - 1))
	cur=${words[cword]} prev=${words[cword - 1]}
}
_parse_help() { "$1" $2 | grep -oE -- '--[a-z-]+'; }
_filedir() { COMPREPLY=(a-file); }
compopt() { :; }

. "$1"
"_${1##*/}" "$2"
printf '%s\n' "${COMPREPLY[@]}"
