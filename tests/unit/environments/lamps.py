"""A house whose instructions are in any language: lamps in rooms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from coevolve.core.task import ToolCall
from coevolve.environments.methods import MethodEnvironment, Question


class House:
    def __init__(self, rooms: list[str], lit: list[str]) -> None:
        self.rooms, self.lit = rooms, sorted(lit)

    def turn_on(self, room: str) -> str:
        """Switch the lamp of a room on."""
        self.lit = sorted({*self.lit, self._known(room)})
        return "1"

    def turn_off(self, room: str) -> str:
        """Switch the lamp of a room off."""
        self.lit = sorted({*self.lit} - {self._known(room)})
        return "0"

    def _known(self, room: str) -> str:
        if room not in self.rooms:
            raise ValueError(f"no room {room}")
        return room


@dataclass(frozen=True)
class Speech:
    """How a language says it: ``off`` and ``on`` for one room, ``both`` for a room to leave and a room to light."""

    rooms: Sequence[str]
    off: str
    on: str
    both: str = ""
    forms: Sequence[str] = ()  # the rooms as instructions inflect them


LANGUAGES = {
    "english": Speech(
        ("parlour", "bedroom", "kitchen", "study", "bath", "hall", "garage", "balcony"),
        "please switch the lamp of the {} off",
        "would you light the {}",
        "switch the lamp of the {} off, then light the {}",
    ),
    "german": Speech(
        ("Salon", "Schlafzimmer", "Küche", "Büro", "Bad", "Flur", "Garage", "Balkon"),
        "mach bitte die Lampe aus im Raum {}",
        "schalte das Licht ein im Raum {}",
        "mach die Lampe aus im Raum {} und schalte danach das Licht ein im Raum {}",
    ),
    "french": Speech(
        ("salon", "chambre", "cuisine", "bureau", "entrée", "couloir", "garage", "balcon"),
        "éteins la lampe de la pièce {}",
        "allume la lumière de la pièce {}, s'il te plaît",
        "éteins la lampe de la pièce {} et allume la lumière de la pièce {}",
    ),
    "arabic": Speech(
        ("الصالون", "المطبخ", "المكتب", "الحمام", "الممر", "المرآب", "الشرفة", "المدخل"),
        "أطفئ مصباح {}",
        "أشعل ضوء {} من فضلك",
        "أطفئ مصباح {} وأشعل ضوء {}",
    ),
    "chinese": Speech(
        ("客厅", "卧室", "厨房", "书房", "浴室", "走廊", "车库", "阳台"),
        "请把{}的灯关掉",
        "麻烦打开{}的灯",
        "先关掉{}的灯，再打开{}的灯",
    ),
    "japanese": Speech(
        ("居間", "寝室", "台所", "書斎", "浴室", "廊下", "車庫", "ベランダ"),
        "{}の電気を消してください",
        "{}の明かりをつけて",
        "{}の電気を消して、{}の明かりをつけて",
    ),
    "hindi": Speech(
        ("रसोई", "बैठक", "गलियारा", "दफ़्तर", "स्नानघर", "छत", "गैराज", "बालकनी"),
        "{} की बत्ती बंद करो",
        "कृपया {} की रोशनी चालू करो",
        "{} की बत्ती बंद करो और {} की रोशनी चालू करो",
    ),
    "russian": Speech(
        ("кухня", "спальня", "гараж", "балкон", "ванная", "коридор", "кабинет", "зал"),
        "выключи лампу {}, пожалуйста",
        "включи свет {}",
        "выключи лампу {} и включи свет {}",
        ("на кухне", "в спальне", "в гараже", "на балконе", "в ванной", "в коридоре", "в кабинете", "в зале"),
    ),
    "quoted": Speech(
        ("Salon", "Schlafzimmer", "Küche", "Büro", "Bad", "Flur", "Garage", "Balkon"),
        "schalte „{}“ aus",
        "bitte »{}« einschalten",
        "schalte „{}“ aus und danach »{}« ein",
    ),
    # no stop and no word tells where a request begins
    "thai": Speech(
        ("ห้องนั่งเล่น", "ห้องนอน", "ครัว", "ห้องทำงาน", "ห้องน้ำ", "ทางเดิน", "โรงรถ", "ระเบียง"),
        "ปิดไฟที่{}",
        "ช่วยเปิดไฟที่{}",
        "ปิดไฟที่{}แล้วเปิดไฟที่{}",
    ),
    # the verb changes its ending instead
    "turkish": Speech(
        ("salon", "mutfak", "banyo", "koridor", "garaj", "balkon", "ofis", "antre"),
        "{} lambasını kapat",
        "lütfen {} ışığını aç",
        "{} lambasını kapatıp {} ışığını aç",
    ),
    "single": Speech(
        ("客厅", "卧室", "厨房", "书房", "浴室", "走廊", "车库", "阳台"),
        "请把{}的灯关掉",
        "麻烦打开{}的灯",
    ),
    "pictures": Speech(
        ("🍎", "🍐", "🍊", "🍋", "🍌", "🍉", "🍇", "🍓"),
        "take the {} off the list",
        "please add {} to the list",
        "take the {} off the list and add {} to it",
    ),
    "joints": Speech(
        ("salt and pepper", "bread, butter", "fish and chips", "milk", "tea then scones", "eggs", "rice", "mac and cheese"),
        "take the {} off the list",
        "please put {} on the list",
        "take the {} off the list and put {} on the list",
    ),
}  # fmt: skip


class Lamps(MethodEnvironment):
    simulator = House

    def __init__(self, language: str) -> None:
        self.name = f"lamps_{language}"
        self._speech = LANGUAGES[language]

    def questions(self, split: str) -> Iterator[Question]:
        speech, place = self._speech, ("seed", "validation", "test").index(split)
        said = dict(zip(speech.rooms, speech.forms or speech.rooms, strict=True))
        for number, (one, other) in enumerate(combinations(speech.rooms, 2)):
            if number % 3 != place:
                continue
            off, on = ToolCall("turn_off", {"room": one}), ToolCall("turn_on", {"room": other})
            rooms = list(speech.rooms)
            yield speech.off.format(said[one]), {"rooms": rooms, "lit": [one, other]}, [off]
            yield speech.on.format(said[other]), {"rooms": rooms, "lit": [one]}, [on]
            if speech.both:
                yield speech.both.format(said[one], said[other]), {"rooms": rooms, "lit": [one]}, [off, on]
