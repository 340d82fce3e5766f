"""string: templates."""


class Template:
    delimiter = "$"

    def __init__(self, template):
        self.template = template

    def substitute(self, mapping={}, /, **kwargs):
        return __substituted__(self.template, {**mapping, **kwargs}, self.delimiter, False)

    def safe_substitute(self, mapping={}, /, **kwargs):
        return __substituted__(self.template, {**mapping, **kwargs}, self.delimiter, True)


class Formatter:
    def format(self, text, /, *args, **kwargs):
        return text.format(*args, **kwargs)

    def vformat(self, text, args, kwargs):
        return text.format(*args, **kwargs)
