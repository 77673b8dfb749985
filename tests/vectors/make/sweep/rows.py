"""The list of rows, by domain and operator."""

ROWS = {}


def row(*names, domain=""):
    """Registers a function that fills in a case of these operators."""

    def register(function):
        for name in names:
            assert (domain, name) not in ROWS, name
            ROWS[domain, name] = function
        return function

    return register


def table(entries, domain=""):
    """Registers rows of fixed operands: by names in one string, the operands and the attributes."""
    for names, (operands, attributes) in entries.items():

        def fill(c, operands=operands, attributes=attributes):
            c.take(*operands, **attributes)

        row(*names.split(), domain=domain)(fill)
