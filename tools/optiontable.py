"""The options of roam, read from the tables in the code: src/base/options.def, and the tables that
transports have in their code.  For manual pages and completions.
"""
import re

OPTION = re.compile(r'^OPTION\((\w+),\s*"(\w+)",\s*(\w+),\s*("[^"]*"|\w+),\s*("[^"]*"|\w+),\s*'
                    r'((?:"[^"]*"\s*)+)\)', re.MULTILINE)
OF_TRANSPORT = re.compile(r'ROAM_TRANSPORT_OPTION\(\s*"(\w+)",\s*("[^"]*"),\s*("[^"]*"|\w+),\s*'
                          r'((?:"[^"]*"\s*)+)\)')


def of_transport(source):
    """The options that a transport declares, as rows; an option of words has those of the first
    #define."""
    found = []
    for variable, default, allowed, meaning in OF_TRANSPORT.findall(source):
        if not allowed.startswith('"'):
            allowed = re.search(rf'#define {allowed} ("[^"]*")', source).group(1)
        kind = 'UNSIGNED' if '..' in allowed else 'NAME' if allowed == '""' else 'CHOICE'
        found.append((variable, kind, default, allowed, meaning))
    if len(found) != source.count('ROAM_TRANSPORT_OPTION('):
        raise ValueError('not every ROAM_TRANSPORT_OPTION understood')
    return found


def rows(options_def, transports):
    """(variable, kind, default, allowed, meaning), as written, of all rows of options.def and of
    transports; a line that is not understood is an error."""
    found = [row[1:] for row in OPTION.findall(options_def)]
    if len(found) != len(re.findall(r'^OPTION\(', options_def, re.MULTILINE)):
        raise ValueError('options.def: not every OPTION understood')
    return found + [row for source in transports for row in of_transport(source)]
