"""All packs of an object directory, found through the multi-pack-index where there is one."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from impl.durability.port import Port, map_file
from impl.errors import Corrupt
from impl.objects.hashes import HashAlgorithm
from impl.objects.pack_errors import DamagedMultiPackIndex, UnsupportedVersion
from impl.objects.pack_format import TYPE_NAMES

if TYPE_CHECKING:  # What reads packs is imported where there are some.
    from impl.objects.midx import MultiPackIndex
    from impl.objects.pack_data import Content
    from impl.objects.pack_file import Pack, PackedObject

MIDX_NAME = "multi-pack-index"


class _Listing:
    """The packs of a directory, by name; those that the multi-pack-index does not cover, too."""

    def __init__(
        self, packs: "dict[str, Pack]", midx: "MultiPackIndex | None", outside_midx: "list[Pack]"
    ) -> None:
        """`midx`: None if there is none that can be used."""
        self.packs = packs
        self.midx = midx
        self.outside_midx = outside_midx


class PackStore:
    """Reads objects from packs. Packs are listed once, and again when an object is not found.

    Another process may repack at any moment: a pack that has gone is looked for anew, once.
    """

    def __init__(
        self,
        port: Port,
        objects_directory: str,
        algorithm: HashAlgorithm,
        *,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        """
        :param warn: told of damage that costs nothing but time: of a multi-pack-index that is
            passed over because the packs' own indexes have everything that it has.
        """
        self.port = port
        self.objects_directory = objects_directory
        self.directory = f"{objects_directory}/pack"
        self.algorithm = algorithm
        self._warn = warn
        self._listing: _Listing | None = None

    def read(self, name: str) -> tuple[str, bytes] | None:
        """The type's word and the content of an object; None if no pack has it.

        :raises Corrupt: the object, or the index that leads to it, is damaged.
        """
        content = self.read_binary(bytes.fromhex(name))
        return None if content is None else (TYPE_NAMES[content[0]], content[1])

    def read_binary(self, name: bytes) -> "Content | None":
        """As `read`, with a binary name and the type's number."""
        if self.locate(name) is None:
            return None
        for _ in range(2):
            try:
                return self._read_any_copy(name)
            except FileNotFoundError:
                self.refresh()
        return None

    def _read_any_copy(self, name: bytes) -> "Content | None":
        """A damaged copy is passed over where another pack has a whole one."""
        damage: Corrupt | None = None
        for copy in self.copies(name):
            try:
                return copy.pack.read(copy.offset, name)
            except Corrupt as error:
                damage = damage or error
        if damage is not None:
            raise damage
        return None

    def copies(self, name: bytes) -> "Iterator[PackedObject]":
        """Every place where an object may be, the one that `locate` finds first. A place that the
        multi-pack-index names is not the only one: the packs' own indexes are asked too."""
        first = self.find(name)
        if first is None:
            return
        yield first
        for pack in self.packs():
            found = pack.find(name)
            if found is not None and found != first:
                yield found

    def contains(self, name: str) -> bool:
        """Whether a pack that has been listed has the object. Lists none anew: what another
        process packs meanwhile may be stored twice, which harms nothing."""
        return self.find(bytes.fromhex(name)) is not None

    def locate(self, name: bytes) -> "PackedObject | None":
        """Where an object is, the packs listed anew if it is in none of those that are known."""
        listed_before = self._listing is not None
        found = self.find(name)
        if found is None and listed_before:
            self.refresh()
            found = self.find(name)
        return found

    def names(self) -> Iterator[str]:
        """The names of all packed objects, some of them more than once."""
        listing = self._list()
        if listing.midx is not None:
            yield from (name.hex() for name in listing.midx.names)
        for pack in listing.outside_midx:
            yield from (name.hex() for name in pack.index.names)

    def names_starting(self, prefix: str) -> set[str]:
        """The names that start with a hexadecimal prefix of two digits or more."""
        listing = self._list()
        tables = [pack.index.names for pack in listing.outside_midx]
        if listing.midx is not None:
            tables.append(listing.midx.names)
        return {name.hex() for table in tables for name in table.starting_with(prefix)}

    def packs(self) -> "list[Pack]":
        """Every pack that has an .idx, by name."""
        listing = self._list()
        return [listing.packs[name] for name in sorted(listing.packs)]

    @property
    def midx(self) -> "MultiPackIndex | None":
        """The multi-pack-index, if there is one that can be used."""
        return self._list().midx

    def refresh(self) -> None:
        """Forget what is known: packs have been added or removed."""
        self._listing = None

    def find(self, name: bytes) -> "PackedObject | None":
        """Where an object is, among the packs that were listed before.

        If one of them has gone since, a repack has put its objects elsewhere: all are listed anew.
        """
        try:
            return self._find(name)
        except FileNotFoundError:
            self.refresh()
            return self._find(name)

    def _find(self, name: bytes) -> "PackedObject | None":
        listing = self._list()
        if listing.midx is not None:
            position = listing.midx.names.find(name)
            if position is not None:
                try:
                    number, offset = listing.midx.place_at(position)
                except DamagedMultiPackIndex as error:
                    self._pass_over_midx(error)
                    return self._find(name)
                pack = listing.packs[listing.midx.pack_names[number][: -len(".idx")]]
                return pack.at(offset)
        for pack in listing.outside_midx:
            if (found := pack.find(name)) is not None:
                return found
        return None

    def _list(self) -> _Listing:
        if self._listing is None:
            self._listing = self._read_listing()
        return self._listing

    def _read_listing(self) -> _Listing:
        try:
            files = set(self.port.list_directory(self.directory))
        except FileNotFoundError:
            return _Listing({}, None, [])
        stems = [file[: -len(".idx")] for file in files if file.endswith(".idx")]
        packs = {stem: self._open(stem) for stem in stems if f"{stem}.pack" in files}
        midx = self._read_midx(packs) if MIDX_NAME in files else None
        indexed = set() if midx is None else {name[: -len(".idx")] for name in midx.pack_names}
        return _Listing(packs, midx, [packs[stem] for stem in sorted(packs.keys() - indexed)])

    def _open(self, stem: str) -> "Pack":
        from impl.objects.pack_file import Pack

        return Pack(self.port, f"{self.directory}/{stem}", self.algorithm)

    def _read_midx(self, packs: "dict[str, Pack]") -> "MultiPackIndex | None":
        """It is derived from the packs' own indexes: a bad one costs time, never an answer."""
        from impl.objects.midx import MultiPackIndex

        path = f"{self.directory}/{MIDX_NAME}"
        try:
            midx = MultiPackIndex(map_file(self.port, path), self.algorithm, path)
        except FileNotFoundError:
            return None
        except (DamagedMultiPackIndex, UnsupportedVersion) as error:
            self._tell(f"{error}; going on without it")
            return None
        gone = [name for name in midx.pack_names if name[: -len(".idx")] not in packs]
        if gone:
            self._tell(f"{path} names {gone[0]}, which is not there; going on without it")
            return None
        return midx

    def _pass_over_midx(self, error: DamagedMultiPackIndex) -> None:
        self._tell(f"{error}; going on without it")
        packs = self._list().packs
        self._listing = _Listing(packs, None, [packs[stem] for stem in sorted(packs)])

    def _tell(self, problem: str) -> None:
        if self._warn is not None:
            self._warn(problem)
