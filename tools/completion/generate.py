#!/usr/bin/env python3
"""Writes the completions of bash and zsh, from the tables of the tool.

usage: generate.py bash|zsh OPTIONS_DEF TRANSPORT_FOLDER TOOL_FOLDER BENCH_MAIN_C PROTOCOLS TRANSPORTS ENGINES

The last three are names, separated by commas.  Writes to standard output.  Input that cannot be
understood is an error; nothing is left out.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import optiontable  # noqa: E402, pylint: disable=wrong-import-position

# Values that depend on the build.
NAMED = {'ROAMI_ALLOC_ALLOWED': 'own|jemalloc'}

BASH = r'''# Completion of roam in bash.  Made by tools/completion/generate.py.

# The values of a variable of roam.
_roam_values()
{
	case $1 in
%(values)s
	esac
}

# NAME and NAME=value, in words that bash splits at "=".
_roam_env()
{
	local cur=${COMP_WORDS[COMP_CWORD]} name

	if [[ $cur == '=' ]]; then
		name=${COMP_WORDS[COMP_CWORD - 1]}
		cur=
	elif ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} == '=' ]]; then
		name=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	if [[ -n $name ]]; then
		COMPREPLY=($(compgen -W "$(_roam_values "$name")" -- "$cur"))
	elif [[ $cur == R* ]]; then
		compopt -o nospace
		COMPREPLY=($(compgen -S = -W "%(variables)s" -- "$cur"))
	fi
}

# The index of the program of `roam run` among the words; 0: not there yet.
_roam_program()
{
	local i

	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--) echo $((i + 1)); return ;;
		%(run_taking)s) ((i++)) ;;
		-*) ;;
		*) echo "$i"; return ;;
		esac
	done
	echo 0
}

_roam_run()
{
	local cur=${COMP_WORDS[COMP_CWORD]} program

	program=$(_roam_program)
	if ((program > 0 && program < COMP_CWORD)); then
		[[ ${COMP_WORDS[program]} == env ]] && _roam_env
	elif [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "%(run)s" -- "$cur"))
	else
		case ${COMP_WORDS[COMP_CWORD - 1]} in
		-H | --hosts) COMPREPLY=($(compgen -A hostname -- "$cur")) ;;
		%(run_taking)s) ;;
		*) COMPREPLY=($(compgen -A command -- "$cur")) ;;
		esac
	fi
}

_roam()
{
	local cur=${COMP_WORDS[COMP_CWORD]} words=

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		COMPREPLY=($(compgen -W "%(commands)s" -- "$cur"))
		return
	fi
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	--engine) words="%(engines)s" ;;
	--protocol | --protocols) words="%(protocols)s" ;;
	--transport) words="%(transports)s" ;;
	--paper) words="%(papers)s" ;;
	esac
	case ${COMP_WORDS[1]} in
	run) _roam_run; return ;;
	info) words="%(info)s" ;;
	bench) words=${words:-"%(benches)s %(bench)s"} ;;
	compare) [[ $cur == -* ]] && words="%(compare)s" ;;
	doctor) [[ $cur == -* ]] && words="%(doctor)s" ;;
	tx)
		if ((COMP_CWORD == 2)); then
			words=report
		elif [[ $cur == -* ]]; then
			words="%(tx)s"
		fi ;;
	where) ((COMP_CWORD == 2)) && COMPREPLY=($(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur"))
		return ;;
	pages)
		if ((COMP_CWORD == 2)); then
			words="serve check"
		elif [[ $cur == -* ]]; then
			words="%(pages)s"
		fi ;;
	past)
		if ((COMP_CWORD == 2)); then
			words="serve top"
		elif [[ $cur == -* ]]; then
			words="%(past)s"
		fi ;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
}

complete -o bashdefault -o default -F _roam roam
# ROAM_ variables before a program, unless something else knows how to complete there.
for _roam_word in env export; do
	complete -p "$_roam_word" > /dev/null 2>&1 ||
		complete -o bashdefault -o default -F _roam_env "$_roam_word"
done
unset _roam_word
'''

ZSH = r'''#compdef roam %(contexts)s
# Completion of roam in zsh.  Made by tools/completion/generate.py.

local -A roam_values
roam_values=(
%(values)s
)

# ROAM_PROTOCOL=<here> ./program
if [[ $compstate[context] == value ]]; then
	compadd -- ${=roam_values[$compstate[parameter]]}
	return
fi

if (( CURRENT == 2 )); then
	compadd -- %(commands)s
	return
fi

local roam_command=$words[2]
shift words
(( CURRENT-- ))
case $roam_command in
run)
	_arguments -S %(run)s \
		'(-)1:program:_command_names -e' '*::argument:_normal'
	;;
info)
	compadd -- %(info)s
	;;
bench)
	_arguments %(bench)s '1:benchmark:(%(benches)s)'
	;;
where)
	_arguments '1:process:_pids'
	;;
compare)
	_arguments %(compare)s \
		'(-)1:program:_command_names -e' '*::argument:_normal'
	;;
doctor)
	_arguments %(doctor)s \
		'(-)1:program:_command_names -e' '*::argument:_normal'
	;;
tx)
	_arguments %(tx)s '1:what:(report)' \
		'(-)2:program:_command_names -e' '*::argument:_normal'
	;;
pages)
	_arguments %(pages)s '1:what:(serve check)' '2:directory:_files -/' '3:address:_files'
	;;
past)
	_arguments %(past)s '1:what:(serve top)' '2:address:_files'
	;;
esac
'''


def read(*path):
    with open(os.path.join(*path), encoding='utf-8') as file:
        return file.read()


def found(pattern, text):
    names = re.findall(pattern, text, re.MULTILINE)
    if not names:
        raise ValueError(f'nothing like {pattern}')
    return names


def long_options(text):
    """(name, whether it takes a value) of the C table."""
    return [('--' + name, kind == 'required')
            for name, kind in found(r'\{"([\w-]+)", (no|required)_argument', text)]


def python_options(text):
    return [(name, 'store_true' not in rest)
            for name, rest in found(r"add_argument\((?:'-\w', )?'(--[\w-]+)'(.*)\)$", text)
            if name != '--roam']


def variables(rows, names):
    """{variable: [value]}"""
    values = {}
    for variable, kind, default, allowed, _ in rows:
        allowed = NAMED.get(allowed, allowed.strip('"'))
        if kind in ('CHOICE', 'WORD', 'LIST'):
            values[variable] = allowed.split('|')
        elif kind in ('BOOL', 'OUTPUT'):
            values[variable] = ['0', '1']
        elif kind == 'TEXT':
            values[variable] = []
        else:
            values[variable] = [default.strip('"')] if default != '""' else []
            values[variable] += [name for name in names.get(variable, []) if name not in values[variable]]
    return values


def tables(options_def, of_transports, tools, bench, protocols, transports, engines):
    names = {'ROAM_PROTOCOL': protocols.split(','), 'ROAM_TRANSPORT': transports.split(','),
             'ROAM_FAULT': ['auto'] + [name for name in engines.split(',') if name != 'soft'],
             'papers': sorted(found(r"'(\w+)': paper_", read(tools, 'compare', 'paper.py')))}
    run = read(tools, 'roam_run_args.c')
    options = optiontable.rows(read(options_def), [read(of_transports, name + '.c')
                                                   for name in transports.split(',')])
    short = re.search(r'getopt_long\(argc, argv, "\+:([\w:]+)"', run).group(1)
    return {
        'values': variables(options, names),
        'names': names,
        'commands': found(r'^\t\{"(\w+)", tool_', read(tools, 'roam.c')),
        'info': ['all'] + found(r'\{"(\w+)", info_\w+,', read(tools, 'roam_info.c')),
        'benches': found(r'^\t\{"(\w+)", bench_', read(bench)) + ['all', 'help'],
        'run': [('-' + letter, bool(more)) for letter, more in re.findall('(\\w)(:?)', short)] +
               long_options(run),
        'bench': [('-n', True)] + long_options(read(bench)),
        'pages': long_options(read(tools, 'roam_pages.c')),
        'past': long_options(read(tools, 'roam_past.c')),
        'compare': python_options(read(tools, 'compare', 'compare.py')),
        'doctor': python_options(read(tools, 'compare', 'doctor.py')),
        'tx': python_options(read(tools, 'compare', 'tx.py')),
    }


def bash(table):
    named = table['names']
    shown = {key: ' '.join(name for name, _ in table[key])
             for key in ('run', 'bench', 'pages', 'past', 'compare', 'doctor', 'tx')}
    shown.update({key: ' '.join(table[key]) for key in ('commands', 'info', 'benches')})
    shown['run_taking'] = ' | '.join(name for name, takes in table['run'] if takes)
    shown['variables'] = ' '.join(table['values'])
    # compgen must get a value as one plain word: nothing in it is expanded.
    shown['values'] = '\n'.join(f"\t{name}) echo '{' '.join(values)}' ;;"
                                for name, values in table['values'].items() if values)
    shown.update(engines=' '.join(named['ROAM_FAULT']), protocols=' '.join(named['ROAM_PROTOCOL']),
                 transports=' '.join(named['ROAM_TRANSPORT']), papers=' '.join(named['papers']))
    return BASH % shown


def zsh_option(name, takes, named):
    if not takes:
        return f"'{name}'"
    values = {'--engine': 'ROAM_FAULT', '--protocol': 'ROAM_PROTOCOL',
              '--protocols': 'ROAM_PROTOCOL', '--transport': 'ROAM_TRANSPORT', '--paper': 'papers'}.get(name)
    act = f'({" ".join(named[values])})' if values else \
        '_hosts' if name in ('-H', '--hosts') else '_files'
    return f"'{name}{'=' if name.startswith('--') else '+'}:value:{act}'"


def zsh(table):
    shown = {key: ' '.join(zsh_option(name, takes, table['names']) for name, takes in table[key])
             for key in ('run', 'bench', 'pages', 'past', 'compare', 'doctor', 'tx')}
    shown.update({key: ' '.join(table[key]) for key in ('commands', 'info', 'benches')})
    shown['values'] = '\n'.join(f"\t{name} '{' '.join(values)}'"
                                for name, values in table['values'].items())
    shown['contexts'] = ' '.join(f'-value-,{name},-default-' for name in table['values'])
    return ZSH % shown


if __name__ == '__main__':
    print({'bash': bash, 'zsh': zsh}[sys.argv[1]](tables(*sys.argv[2:])), end='')
