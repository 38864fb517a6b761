#!/bin/bash
# clang-format is law. One TAP line a file; exit status 77 where there is no clang-format.
cd "$(dirname "$0")/../.." || exit 1

if ! command -v clang-format >/dev/null; then
	echo "1..0 # SKIP clang-format is not installed"
	exit 77
fi
if ! mapfile -t files < <(git ls-files '*.c' '*.h' 2>/dev/null) || [ ${#files[@]} -eq 0 ]; then
	mapfile -t files < <(find . -path ./build -prune -o -name '*.[ch]' -printf '%P\n' | sort)
fi

# One process for all files; only where it finds a fault, one for each file.
if clang-format --dry-run -Werror "${files[@]}" 2>/dev/null; then
	printf 'ok - %s\n' "${files[@]}"
	echo "1..${#files[@]}"
	exit 0
fi

n=0
failed=0
for file in "${files[@]}"; do
	[ -e "$file" ] || continue
	n=$((n + 1))
	if said=$(clang-format --dry-run -Werror "$file" 2>&1); then
		echo "ok $n - $file"
	else
		failed=1
		echo "not ok $n - $file"
		head -n 3 <<<"$said" | sed 's/^/# /'
	fi
done
echo "1..$n"
exit $failed
