"""A second account of the demo corpus's grammar, written apart from the first, to check it.

The corpus is generated: it draws words and writes both languages. This goes the other way: it parses the
English sentence with tables of its own and says what German the grammar book asks for.
"""

import re
from typing import NamedTuple

# The standard declension tables; ~ is the adjective. Columns: masculine, feminine, neuter, plural.
DECLENSION = {
    ("the", "nominative"): "der ~e  | die ~e  | das ~e  | die ~en",
    ("the", "accusative"): "den ~en | die ~e  | das ~e  | die ~en",
    ("the", "dative"):     "dem ~en | der ~en | dem ~en | den ~en",
    ("a", "nominative"):   "ein ~er   | eine ~e   | ein ~es   | ~e",
    ("a", "accusative"):   "einen ~en | eine ~e   | ein ~es   | ~e",
    ("a", "dative"):       "einem ~en | einer ~en | einem ~en | ~en",
    ("my", "nominative"):  "mein ~er   | meine ~e   | mein ~es   | meine ~en",
    ("my", "accusative"):  "meinen ~en | meine ~e   | mein ~es   | meine ~en",
    ("my", "dative"):      "meinem ~en | meiner ~en | meinem ~en | meinen ~en",
}  # fmt: skip

# English singular and plural; German nominative singular with its article, plural, dative plural.
NOUNS = """
man men der Mann Männer Männern|friend friends der Freund Freunde Freunden
doctor doctors der Arzt Ärzte Ärzten|boy boys der Junge Jungen Jungen
woman women die Frau Frauen Frauen|girl girls das Mädchen Mädchen Mädchen
teacher teachers die Lehrerin Lehrerinnen Lehrerinnen|singer singers die Sängerin Sängerinnen Sängerinnen
neighbour neighbours die Nachbarin Nachbarinnen Nachbarinnen|child children das Kind Kinder Kindern
dog dogs der Hund Hunde Hunden|bird birds der Vogel Vögel Vögeln|cat cats die Katze Katzen Katzen
mouse mice die Maus Mäuse Mäusen|horse horses das Pferd Pferde Pferden|letter letters der Brief Briefe Briefen
newspaper newspapers die Zeitung Zeitungen Zeitungen|book books das Buch Bücher Büchern
apple apples der Apfel Äpfel Äpfeln|pear pears die Birne Birnen Birnen|egg eggs das Ei Eier Eiern
coat coats der Mantel Mäntel Mänteln|jacket jackets die Jacke Jacken Jacken
dress dresses das Kleid Kleider Kleidern|suitcase suitcases der Koffer Koffer Koffern
door doors die Tür Türen Türen|window windows das Fenster Fenster Fenstern
computer computers der Computer Computer Computern|lamp lamps die Lampe Lampen Lampen
radio radios das Radio Radios Radios|car cars das Auto Autos Autos|bag bags die Tasche Taschen Taschen
bicycle bicycles das Fahrrad Fahrräder Fahrrädern|key keys der Schlüssel Schlüssel Schlüsseln
ball balls der Ball Bälle Bällen|picture pictures das Bild Bilder Bildern
table tables der Tisch Tische Tischen|bench benches die Bank Bänke Bänken|bed beds das Bett Betten Betten
garden gardens der Garten Gärten Gärten|park parks der Park Parks Parks
kitchen kitchens die Küche Küchen Küchen|city cities die Stadt Städte Städten
house houses das Haus Häuser Häusern|room rooms das Zimmer Zimmer Zimmern
"""
WEAK = {"Junge": "Jungen"}  # every case of the singular but the nominative

ADJECTIVES = {
    "old": "alt", "young": "jung", "tired": "müd", "hungry": "hungrig", "friendly": "freundlich",
    "good": "gut", "happy": "glücklich", "clever": "klug", "small": "klein", "big": "groß",
    "black": "schwarz", "red": "rot", "white": "weiß", "new": "neu", "long": "lang",
    "interesting": "interessant", "fresh": "frisch", "cheap": "billig", "beautiful": "schön",
    "quiet": "ruhig",
}  # fmt: skip

# English forms | German present: I, he, we | participle | case of the bare object | separable prefix.
VERBS = """
see sees seen | sehe sieht sehen | gesehen | accusative
read reads read | lese liest lesen | gelesen | accusative
buy buys bought | kaufe kauft kaufen | gekauft | accusative
find finds found | finde findet finden | gefunden | accusative
look looks looked | suche sucht suchen | gesucht | accusative
eat eats eaten | esse isst essen | gegessen | accusative
chase chases chased | jage jagt jagen | gejagt | accusative
visit visits visited | besuche besucht besuchen | besucht | accusative
repair repairs repaired | repariere repariert reparieren | repariert | accusative
draw draws drawn | zeichne zeichnet zeichnen | gezeichnet | accusative
wash washes washed | wasche wäscht waschen | gewaschen | accusative
feed feeds fed | füttere füttert füttern | gefüttert | accusative
open opens opened | mache macht machen | aufgemacht | accusative | auf
close closes closed | mache macht machen | zugemacht | accusative | zu
turn turns turned | mache macht machen | angemacht | accusative | an
call calls called | rufe ruft rufen | angerufen | accusative | an
invite invites invited | lade lädt laden | eingeladen | accusative | ein
pick picks picked | hole holt holen | abgeholt | accusative | ab
tidy tidies tidied | räume räumt räumen | aufgeräumt | accusative | auf
try tries tried | probiere probiert probieren | anprobiert | accusative | an
listen listens listened | höre hört hören | zugehört | dative | zu
help helps helped | helfe hilft helfen | geholfen | dative
give gives given | gebe gibt geben | gegeben | accusative
show shows shown | zeige zeigt zeigen | gezeigt | accusative
play plays played | spiele spielt spielen | gespielt | accusative
sleep sleeps slept | schlafe schläft schlafen | geschlafen | accusative
work works worked | arbeite arbeitet arbeiten | gearbeitet | accusative
go goes gone | gehe geht gehen | gegangen | accusative
jump jumps jumped | springe springt springen | gesprungen | accusative
put puts put | lege legt legen | gelegt | accusative
know knows known | weiß weiß wissen | gewusst | accusative
say says said | sage sagt sagen | gesagt | accusative
believe believes believed | glaube glaubt glauben | geglaubt | accusative
"""
HELPERS = {
    "have": "habe hat haben", "be": "bin ist sind", "want": "will will wollen", "can": "kann kann können",
    "must": "muss muss müssen",
}  # fmt: skip
HELPER_FORMS = {
    "have": "have", "has": "have", "am": "be", "is": "be", "are": "be", "wants": "want", "want": "want",
    "can": "can", "must": "must",
}  # fmt: skip
PRONOUNS = {"i": ("ich", 0), "he": ("er", 1), "she": ("sie", 1), "we": ("wir", 2), "they": ("sie", 2)}
PREPOSITIONS = {
    "with": ("mit", "dative"), "in": ("in", "dative"), "into": ("in", "accusative"),
    "on": ("auf", "accusative"), "onto": ("auf", "accusative"),
}  # fmt: skip
TIMES = {
    "every day": "jeden Tag", "every evening": "jeden Abend", "this week": "diese Woche",
    "sometimes": "manchmal", "today": "heute", "tomorrow": "morgen", "now": "jetzt",
}  # fmt: skip
CONJUNCTIONS = {"because": "weil", "although": "obwohl", "when": "wenn", "while": "während", "that": "dass"}

NOUN_FORMS = {}
for row in re.split(r"[|\n]", NOUNS.strip()):
    singular, plural, article, *german = row.split()
    NOUN_FORMS[singular] = (singular, article, german, False)
    NOUN_FORMS[plural] = (singular, article, german, True)
VERB_FORMS = {}
for row in VERBS.strip().splitlines():
    forms, *german = (part.split() for part in row.split("|"))
    for form in forms:
        VERB_FORMS[form] = (forms[0], german)
PHRASE = re.compile(
    rf"(?:\b({'|'.join(PREPOSITIONS)}) )?(?:\b(the|an?|my) )?(?:\b({'|'.join(ADJECTIVES)}) )?"
    rf"\b({'|'.join(NOUN_FORMS)})\b"
)


class Parsed(NamedTuple):
    """What the parser finds in an English clause."""

    core: tuple[str, ...] | None  # subject, verb, object
    adjectives: list[tuple[str, str]]  # with their nouns
    time_first: bool
    time: str
    subject: str
    finite: str
    middle: str
    end: str
    final: str
    cells: list[tuple[str, str, str]]  # determiner, case and gender of the noun phrases with an adjective


def noun_phrase(match: re.Match, case: str) -> tuple[str, tuple[str, str, str]]:
    _, determiner, adjective, form = match.groups()
    _, article, (singular, plural, dative_plural), is_plural = NOUN_FORMS[form]
    column = 3 if is_plural else ["der", "die", "das"].index(article)
    determiner = {"an": "a", None: "a"}.get(determiner, determiner)
    words = DECLENSION[determiner, case].split("|")[column].replace("~", ADJECTIVES.get(adjective, "~"))
    if is_plural:
        noun = dative_plural if case == "dative" else plural
    else:
        noun = singular if case == "nominative" else WEAK.get(singular, singular)
    text = " ".join([*(word for word in words.split() if "~" not in word), noun])
    return text, (determiner, case, "mfnp"[column])


def parse(clause: str) -> Parsed:
    time = next((english for english in TIMES if re.search(rf"\b{english}\b", clause)), "")
    time_first = bool(time) and clause.startswith(time)
    text = " ".join(re.sub(rf"\b{time}\b", "", clause).split()) if time else clause
    text = re.sub(r"\b(turn|turns|turned|try|tries|tried) on\b", r"\1", text)
    words = text.split()
    verb, verb_german = next((VERB_FORMS[word] for word in words if word in VERB_FORMS), ("be", None))
    helper = next((HELPER_FORMS[word] for word in words if word in HELPER_FORMS), None)
    matches = list(PHRASE.finditer(text))
    adjectives = [(match[3], NOUN_FORMS[match[4]][0]) for match in matches if match[3]]
    cells = []

    if words[0] in PRONOUNS:
        subject, person = PRONOUNS[words[0]]
        subject_lemma = words[0]
    else:
        first = matches.pop(0)
        subject, cell = noun_phrase(first, "nominative")
        cells += [cell] if first[3] else []
        subject_lemma, *_, is_plural = NOUN_FORMS[first[4]]
        person = 2 if is_plural else 1

    if verb == "be":
        end = {"müd": "müde"}.get(ADJECTIVES[words[-1]], ADJECTIVES[words[-1]])
        finite, final = HELPERS["be"].split()[person], ""
        adjectives.append((words[-1], subject_lemma))
        return Parsed(None, adjectives, time_first, time, subject, finite, "", end, f"{end} {finite}{final}", cells)

    present, participle, (object_case,), *prefix = verb_german
    prefix = prefix[0][0] if prefix else ""
    if helper is None:
        finite, end, final = present[person], prefix, prefix + present[person]
    else:
        moved = "be" if verb in ("go", "jump") and helper == "have" else helper
        finite = HELPERS[moved].split()[person]
        end = participle[0] if helper == "have" else prefix + present[2]
        final = f"{end} {finite}"

    # German order of what comes between: receivers and places, the object, goals.
    before, goals, objects = [], [], []
    for index, match in enumerate(matches):
        preposition, case = PREPOSITIONS.get(match[1], ("", object_case))
        receiver = verb in ("give", "show") and index == 0
        phrase, cell = noun_phrase(match, "dative" if receiver else case)
        cells += [cell] if match[3] else []
        phrase = re.sub("^in dem ", "im ", re.sub("^in das ", "ins ", f"{preposition} {phrase}".strip()))
        is_object = index == (1 if verb in ("give", "show") else 0)
        place = objects if is_object else goals if match[1] == "on" else before
        place.append((phrase, NOUN_FORMS[match[4]][0]))
    middle = " ".join(phrase for phrase, _ in before + objects + goals)
    core = (subject_lemma, verb, objects[0][1]) if objects else None
    return Parsed(core, adjectives, time_first, time, subject, finite, middle, end, final, cells)


def split_clauses(english: str) -> tuple[list[Parsed], str, bool]:
    """The clauses in English order, the conjunction, and whether it opens the sentence."""
    text = english.rstrip(".").lower()
    if match := re.fullmatch(r"(because|although|when|while) (.+), (.+)", text):
        return [parse(match[2]), parse(match[3])], match[1], True
    if match := re.fullmatch(rf"(.+?) ({'|'.join(CONJUNCTIONS)}) (.+)", text):
        return [parse(match[1]), parse(match[3])], match[2], False
    return [parse(text)], "", False


def translate(english: str) -> str:
    """The German that the rules of the grammar book ask for."""

    def join(*words: str) -> str:
        return " ".join(word for word in words if word)

    def main(clause: Parsed, inverted: bool = False) -> str:
        time = TIMES.get(clause.time, "")
        if clause.time_first:
            return join(time, clause.finite, clause.subject, clause.middle, clause.end)
        if inverted:
            return join(clause.finite, clause.subject, time, clause.middle, clause.end)
        return join(clause.subject, clause.finite, time, clause.middle, clause.end)

    def subordinate(clause: Parsed) -> str:
        return join(CONJUNCTIONS[conjunction], clause.subject, TIMES.get(clause.time, ""), clause.middle, clause.final)

    clauses, conjunction, opens = split_clauses(english)
    if opens:
        german = f"{subordinate(clauses[0])}, {main(clauses[1], inverted=True)}"
    else:
        german = ", ".join([main(clauses[0]), *(subordinate(clause) for clause in clauses[1:])])
    return german[0].upper() + german[1:] + "."
