#!/bin/sh
# Runs a command with the variables of a file, such as /etc/contacts/operator.env: with-env.sh FILE COMMAND [ARGUMENT...]
# systemd and Docker Compose read such files by rules of their own. A line that one of them reads differently is refused by its
# number, before the command runs, so that a value is the same for all of them.
set -eu
# Names that no file sets.
_file=$1
shift
_return=$(printf '\r')
_refuse() {
	printf '%s, line %s: %s\n' "$_file" "${_number%%:*}" "$1" >&2
	exit 1
}
# The first line that grep finds with these arguments, behind its number.
_find() { grep -na -m 1 "$@" "$_file" 2>/dev/null; }
# systemd leaves out what is not UTF-8.
_number=$(LC_ALL=C.UTF-8 _find -xv '.*') && _refuse 'is not UTF-8.'
# Compose removes Unicode's spaces at the ends of a value. Byte order marks and spaces without width are not seen either.
_number=$(LC_ALL=C _find -E "$(printf '\302[\200-\240]|\342\200[\200-\217\250-\257]|\343\200\200|\357\273\277')") &&
	_refuse 'has a space or a mark that is not seen, such as a byte order mark: remove it.'
_number=0
while IFS= read -r _line || [ -n "$_line" ]; do
	_number=$((_number + 1))
	_line=${_line%"$_return"}
	case $_line in '' | '#'*) continue ;; esac
	_name=${_line%%=*}
	_value=${_line#*=}
	case $_name in
	"$_line" | '' | [!A-Za-z_]* | *[!A-Za-z0-9_]*)
		_refuse 'write NAME=value, without spaces around "=" and without "export".'
		;;
	esac
	case $_value in
	*[[:cntrl:]]*) _refuse "the value of $_name has a character that does not print." ;;
	\'*\')
		_value=${_value#\'}
		_value=${_value%\'}
		case $_value in *\'* | *\\) _refuse "the value of $_name has a ' within, or \\ at its end." ;; esac
		;;
	\"?*\" | '""')
		_value=${_value#\"}
		_value=${_value%\"}
		case $_value in *[\"\$\`\\]*) _refuse "write $_name='value': between \" some programs read \", \$, \` and \\ differently." ;; esac
		;;
	*[\'\"\\\$\`]* | ' '* | *' ' | '#'* | *' #'*)
		_refuse "write $_name='value', because the value has a quote, \\, \$, #, or a space at an end."
		;;
	esac
	export "$_name=$_value"
done <"$_file"
exec "$@"
