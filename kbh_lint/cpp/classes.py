"""Classes of C++: which definition a template-id names, what its bases are, and what its members are in it.

A class that a text uses is one `Class` a domain: the definition that its template arguments pick, and a scope in which
its parameters, its types and its constants have their names, those of bases too. Whoever looks for a member asks here;
what a member's value is stays with the domain.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from kbh_lint.base import ir
from kbh_lint.base.values import CppType, Func, Overloads
from kbh_lint.cpp import templates, traits
from kbh_lint.cpp.domain import Bound, Domain, Scope
from kbh_lint.cpp.members import Class, ClassEnv, Injected, Member, declares, unnamed

MAX_DEPTH = 40  # classes whose bases and members are looked at for one another
MAX_FIELDS = 256
MOST = 64  # bases


class Classes:
    """The classes of one domain."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.made: dict[Hashable, Class] = {}
        self.depth = 0

    def close(self) -> None:
        """Breaks the references between classes and their scopes, so that they are freed; the object is not used
        afterwards."""
        for made in self.made.values():
            made.env.of = None
            made.members.clear()
            made.lineage.clear()
            made.env.vars.clear()
        vars(self).clear()

    # --- which class it is --------

    def instance(self, found: CppType, given: Sequence[ir.Expr], at: Scope) -> tuple[CppType, dict[str, Bound]]:
        """The definition (a template or a specialisation) that a class name means with the template arguments `given`,
        which are read in scope `at`, and what that definition's own parameters are bound to."""
        if isinstance(found, Injected) and found.own is not None and not given:
            return found.own
        if not found.node.template:
            return found, {}
        bound = templates.bind(self.domain, found.node.template, given, at, found.env, {})
        return templates.specialised(self.domain, found, bound) if found.special else (found, bound)

    def written(self, ref: ir.TypeRef, at: Scope) -> Bound | None:
        """The type that `ref` means in scope `at`, without its pointers, if it begins with a name that the text defines
        or the standard library makes it of others (`traits.makes`); None for others, and where unknown."""
        if self.depth > MAX_DEPTH:
            return None
        self.depth += 1
        try:
            found = self.domain.lookup(ref.name, at)
            if found is None and ref.args and traits.makes(ref):
                made = traits.made(self.domain, ref, at)
                return None if made is None else self.through(made, traits.behind(ref), at)
            if found is None and "::" in ref.name:
                found = self.declaration(ref.name, ref.loc, at)
            return None if found is None else self._bound(found, ref, at)
        finally:
            self.depth -= 1

    def _bound(self, found: CppType | Bound, ref: ir.TypeRef, at: Scope) -> Bound | None:
        """The type that a reference means whose name is bound to a class, an alias or a type."""
        definition = self.domain.definition(found) if ref.args and not isinstance(found, CppType) else None
        if definition is not None:  # a parameter that is a class template
            found = definition[0]
        return self.meant(found, ref, at) if isinstance(found, CppType) else self.through(found, ref.member, at)

    def meant(self, found: CppType, ref: ir.TypeRef, at: Scope) -> Bound | None:
        """The type that `ref` means in scope `at`, given that its name is bound to the class or alias `found`; None
        where unknown."""
        if isinstance(found.node, ir.ClassDef):
            return self.through(self.domain.made(*self.instance(found, ref.args, at)), ref.member, at)
        kind = self.aliased(found, found.node, ref.args, at)
        return None if kind is None else self.through(kind, ref.member, at)

    def aliased(self, found: CppType, node: ir.Using, given: Sequence[ir.Expr], at: Scope) -> Bound | None:
        """The type that an alias stands for with the template arguments `given`, which are read in scope `at`; None
        where unknown."""
        if node.type is None or self.depth > MAX_DEPTH:
            return None
        own = templates.bind(self.domain, node.template, given, at, found.env, {}) if node.template else {}
        self.depth += 1
        try:
            return self.domain.named(node.type, self.domain.scope(found.env, own))
        finally:
            self.depth -= 1

    def through(self, kind: Bound, path: Sequence[str], at: Scope) -> Bound | None:
        """The type that `kind::a::b` names, `path` being ("a", "b"), as written in scope `at`; None where unknown."""
        for part in path:
            member = self.member(kind, (part,), at)
            found = None if member is None else self.type_of(member, part, at)
            if found is None:
                return None
            kind = found
        return kind

    def of(self, kind: Bound) -> Class | None:
        """The class that the type `kind` is; None for other types."""
        definition = self.domain.definition(kind)
        return None if definition is None else self.defined(*definition)

    def defined(self, found: CppType, args: Mapping[str, Bound]) -> Class | None:
        """The class that the definition `found` makes with its template parameters bound to `args`; None for an
        alias."""
        if not isinstance(found.node, ir.ClassDef):
            return None
        keys = tuple([self.domain.same(value) for value in args.values()])
        known_all = len(keys) >= len(found.node.template) and None not in keys
        key = (id(found.node), id(found.env), keys) if known_all else None
        known = self.made.get(key)
        if known is not None:
            return known
        if self.depth > MAX_DEPTH:
            self.domain.unsure(f"{found.node.name} is one of too many classes that need one another", found.node.loc)
            return None
        made = Class(found, dict(args), ClassEnv(dict(args), found.env))
        made.env.of = made
        self.made[id(made) if key is None else key] = made
        self.depth += 1
        try:
            self._fill(made)
        finally:
            self.depth -= 1
        return made

    # --- what it is made of --------

    def _fill(self, made: Class) -> None:
        node = made.node
        self.domain.spend(4 + len(node.body))
        primary = made.kind.env.get(node.name)
        if node.template or node.specialization or node.explicit:
            whole = primary if isinstance(primary, CppType) else made.kind
            own = (made.kind, made.args)
            made.env.vars.setdefault(node.name, Injected(whole.node, whole.env, whole.special, own=own))
        declared: list[ir.Using] = []
        for stmt in node.body:
            self._declare(made, stmt, declared)
        for base in node.bases:
            kind = self.domain.named(base, self.domain.scope(made.env, {})) if isinstance(base, ir.TypeRef) else None
            if kind is not None:
                made.bases.append(kind)
                self._inherit(made, kind, templates.mentions(base, {param.name for param in node.template}))
        for using in declared:
            self._bring(made, using)
        made.lineage.append(made)
        for kind in made.bases:
            above = self.of(kind)
            new = [one for one in above.lineage if one not in made.lineage] if above is not None else []
            made.lineage += new[: MOST - len(made.lineage)]
        made.fields = [member for one in reversed(made.lineage) for member in one.own][:MAX_FIELDS]

    def _declare(self, made: Class, stmt: ir.Stmt, declared: list[ir.Using]) -> None:
        """Adds one member; a `using` that brings names of bases goes to `declared`, for when these are known."""
        if isinstance(stmt, ir.FuncDef):
            self._declare_function(made, stmt)
        elif isinstance(stmt, ir.ClassDef):
            self._declare_class(made, stmt)
        elif isinstance(stmt, ir.Using):
            if stmt.type is not None and declares(stmt):
                declared.append(stmt)
            elif stmt.type is not None and stmt.name:
                made.env.vars[stmt.name] = CppType(stmt, made.env)
                made.members[stmt.name] = Member(made, stmt)
        elif isinstance(stmt, ir.Decl):
            self._declare_variable(made, stmt)
        elif isinstance(stmt, (ir.Opaque, ir.Block)):
            for child in stmt.children if isinstance(stmt, ir.Opaque) else stmt.body:
                if isinstance(child, (ir.FuncDef, ir.ClassDef, ir.Using, ir.Decl)):
                    self._declare(made, child, declared)

    def _declare_function(self, made: Class, node: ir.FuncDef) -> None:
        env, name = made.env, node.name
        member = made.members.setdefault(name, Member(made, node))
        member.funcs.append(Func(node, env))
        if name != made.node.name and all("static" in func.node.attributes for func in member.funcs):
            env.vars[name] = Overloads(member.funcs)
        elif isinstance(env.vars.get(name), Overloads):
            del env.vars[name]  # it may need an object

    def _declare_class(self, made: Class, node: ir.ClassDef) -> None:
        env, name = made.env, node.name
        primary = env.vars.get(name)
        if (node.specialization or node.explicit) and isinstance(primary, CppType):
            primary.special.append(CppType(node, env))
            return
        env.vars[name] = CppType(node, env)
        made.members[name] = Member(made, node)
        if unnamed(made.node, node):
            self._open(made, env.vars[name])

    def _declare_variable(self, made: Class, node: ir.Decl) -> None:
        env, member = made.env, Member(made, node)
        if not node.name and node.type is not None:  # `union { ... };`
            inner = env.vars.get(node.type.name)
            if isinstance(inner, CppType):
                self._open(made, inner)
            return
        made.members[node.name] = member
        if member.constant and not member.field:
            env.vars[node.name] = member
        elif member.field:
            made.own.append(member)

    def _open(self, made: Class, kind: CppType) -> None:
        """The members of a struct or union without a name are those of the class around it."""
        made.parts.append(kind)
        inner = self.of(self.domain.made(kind, {}))
        for name, member in inner.members.items() if inner is not None else ():
            if member.field and name not in made.members:
                made.members[name] = member
        made.own += [] if inner is None else inner.own

    def _inherit(self, made: Class, kind: Bound, dependent: bool) -> None:
        """Members of a base, where the class has none of the name. A name alone does not mean one of a base that
        depends on template parameters."""
        base = self.of(kind)
        for name, member in base.members.items() if base is not None else ():
            maker = name == member.owner.node.name  # a class constructs its own bases, no further ones
            if name in made.members or maker and member.owner is not base:
                continue
            made.members[name] = member
            value = member.owner.env.vars.get(name)
            if not dependent and value is not None:
                made.env.vars.setdefault(name, value)

    def _bring(self, made: Class, node: ir.Using) -> None:
        """`using Base::f;`: a base's member under its name, beside functions of the class's own."""
        assert node.type is not None
        known = made.members.get(node.name)
        for kind in made.bases:
            base = self.of(kind)
            if base is not None and node.name == base.node.name:
                made.taken.append(base)
                return
            found = None if base is None else base.members.get(node.name)
            if found is None:
                continue
            if known is None or known.owner is not made:
                made.members[node.name] = found
                value = found.owner.env.vars.get(node.name)
                if value is not None:
                    made.env.vars.setdefault(node.name, value)
            elif found.funcs:
                known.funcs += found.funcs
            return
        if known is None:  # of a class that the text does not define, or a constructor
            made.members[node.name] = Member(made, node)
            made.env.vars.setdefault(node.name, CppType(node, made.env))

    # --- members --------

    def bases(self, kind: Bound) -> list[Bound]:
        """The direct bases of a class, in order; none for other types."""
        made = self.of(kind)
        return [] if made is None else made.bases

    def named(self, kind: Bound, name: str) -> Member | None:
        """The member of a class called `name`, of its own or of a base; None where there is none."""
        made = self.of(kind)
        return None if made is None else made.members.get(name)

    def member(self, kind: Bound, path: Sequence[str], at: Scope) -> Member | None:
        """The member that `kind::a::b` names, `path` being ("a", "b"), as written in scope `at`; None where there is
        none."""
        made = self.of(kind)
        if made is None or not path:
            return None
        whole = path[0] if len(path) == 1 else "::".join(path)  # `Mode::plain` of an enumeration in the class, too
        found = made.members.get(whole.name if isinstance(whole, ir.TemplateName) else whole)
        if found is not None or len(path) == 1:
            return found
        inner = self.through(kind, path[:1], at)
        return None if inner is None else self.member(inner, path[1:], at)

    def type_of(self, member: Member, part: str, at: Scope) -> Bound | None:
        """The type that a member class or alias is, with the template arguments in `part`, which are read in scope
        `at`; None for other members."""
        known = member.owner.env.vars.get(member.node.name)
        args = part.args if isinstance(part, ir.TemplateName) else ()
        ref = ir.TypeRef(member.node.name, args, member.node.loc)
        return self.meant(known, ref, at) if isinstance(known, CppType) else None

    def declared(self, member: Member) -> Bound | None:
        """The type with which a field or constant is declared, as seen in its class; None for other members."""
        ref = member.node.type if isinstance(member.node, (ir.Decl, ir.Using)) else None
        return None if ref is None else self.domain.named(ref, self.domain.scope(member.owner.env, {}))

    def variable(self, ref: ir.TypeRef, at: Scope) -> Member | None:
        """The member that holds the value of a variable template's instance such as `is_small<T>`; None for other
        names."""
        if not ref.args or ref.member or ref.pointers or ref.dims:
            return None
        found = self.domain.lookup(ref.name, at)
        if found is None and "::" in ref.name:
            found = self.declaration(ref.name, ref.loc, at)
        if not isinstance(found, CppType) or not isinstance(found.node, ir.ClassDef):
            return None
        if not found.node.body or getattr(found.node.body[0], "name", "") != ir.VARIABLE:
            return None
        made = self.defined(*self.instance(found, ref.args, at))
        return None if made is None else made.members.get(ir.VARIABLE)

    def methods(self, kind: Bound, name: str) -> list[Func]:
        """The methods of a class called `name`, of its own or, if it has none, of its bases."""
        found = self.named(kind, name)
        return [] if found is None else found.funcs

    def constructors(self, kind: Bound) -> list[Func]:
        """The constructors of a class, with those inherited by `using Base::Base`."""
        made = self.of(kind)
        return [] if made is None else self.makers(made)

    def makers(self, made: Class) -> list[Func]:
        """The constructors of the class `made`, with those inherited by `using Base::Base`."""
        own = made.members.get(made.node.name)
        found = list(own.funcs) if own is not None and own.owner is made else []
        return [*found, *(func for base in made.taken for func in self.makers(base))]

    def conversions(self, kind: Bound) -> list[tuple[Bound, Func]]:
        """The conversion operators of a class and of its bases, each with the type that it converts to."""
        made = self.of(kind)
        return [] if made is None else self.conversions_of(made)

    def conversions_of(self, made: Class) -> list[tuple[Bound, Func]]:
        """The conversion operators of the class `made` and of its bases, each with the type that it converts to."""
        found: list[tuple[Bound, Func]] = []  # those of bases are among the members
        for name, member in made.members.items():
            if name.startswith("operator ") and member.funcs:
                text = name.removeprefix("operator ").removeprefix("const ").rstrip("&")
                ref = ir.TypeRef(text.rstrip("*"), (), member.node.loc, pointers=text.count("*"))
                wanted = self.domain.named(ref, self.domain.scope(member.owner.env, {}))
                found += [(wanted, func) for func in member.funcs if wanted is not None]
        return found

    def fields(self, kind: Bound) -> list[Member]:
        """The fields of an object: those of the bases first, then its own, in order."""
        made = self.of(kind)
        return [] if made is None else made.fields

    def template(self, kind: Bound) -> tuple[str, tuple[Bound, ...]]:
        """The name of the class template that a type is an instance of, and its arguments, those of the primary
        template; `("", ())` for other types."""
        definition = self.domain.definition(kind)
        if definition is None:
            return "", ()
        found, args = definition
        special = found.node.specialization if isinstance(found.node, ir.ClassDef) else ()
        primary = found.env.get(found.node.name)
        if not special or not isinstance(primary, CppType):
            return found.node.name, tuple(templates.listed(self.domain, args.values()))
        at = self.domain.scope(found.env, args)
        kinds = [param.kind for param in primary.node.template]
        kinds += kinds[-1:] * (len(special) - len(kinds))  # those of a pack
        values = [
            self.domain.argument(templates.written(node.value if isinstance(node, ir.Star) else node, kind), kind, at)
            for node, kind in zip(special, kinds, strict=False)
        ]
        return found.node.name, tuple(templates.listed(self.domain, values))

    # --- qualified names --------

    def declaration(self, name: str, loc: ir.Loc, at: Scope) -> CppType | None:
        """The class or alias that the qualified name `name` (`A::b::c`) stands for in scope `at`; None for other
        names."""
        member = self.scoped(name, loc, at)
        found = None if member is None else member.owner.env.vars.get(name.rpartition("::")[2])
        return found if isinstance(found, CppType) else None

    def scoped(self, name: str, loc: ir.Loc, at: Scope) -> Member | None:
        """The member that the qualified name `name` (`A::b::c`) stands for, `A` being a class, a template parameter or
        an alias; None for other names."""
        parts = name.split("::")
        for count in range(1, len(parts)):
            head = parts[0] if count == 1 else "::".join(parts[:count])
            found = self.domain.lookup(head, at)
            if found is None:
                continue
            kind = self._bound(found, ir.TypeRef(head, (), loc), at)
            if kind is not None and self.domain.definition(kind) is not None:
                return self.member(kind, parts[count:], at)
        return None
