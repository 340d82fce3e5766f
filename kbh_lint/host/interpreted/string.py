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
        return self.vformat(text, args, kwargs)

    def vformat(self, text, args, kwargs):
        if type(self) is Formatter:
            return text.format(*args, **kwargs)
        used, found, at = set(), [], 0
        for literal, field, spec, conversion in self.parse(text):
            found.append(literal)
            if field is None:
                continue
            if field == "" or field[0] in ".[":
                field, at = str(at) + field, at + 1
            value, key = self.get_field(field, args, kwargs)
            used.add(key)
            value = self.convert_field(value, conversion)
            if "{" in spec:
                spec = self.vformat(spec, args, kwargs)
            found.append(self.format_field(value, spec))
        self.check_unused_args(used, args, kwargs)
        return "".join(found)

    def parse(self, text):
        return __replacements__(text)

    def get_field(self, field_name, args, kwargs):
        first, rest = __named__(field_name)
        value = self.get_value(first, args, kwargs)
        for is_attr, name in rest:
            value = getattr(value, name) if is_attr else value[name]
        return value, first

    def get_value(self, key, args, kwargs):
        return args[key] if isinstance(key, int) else kwargs[key]

    def check_unused_args(self, used_args, args, kwargs):
        return None

    def format_field(self, value, format_spec):
        return format(value, format_spec)

    def convert_field(self, value, conversion):
        if conversion is None:
            return value
        return str(value) if conversion == "s" else repr(value) if conversion == "r" else ascii(value)
