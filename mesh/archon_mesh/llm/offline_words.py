"""Word lists of the offline model, in English."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Never end a sentence.
ABBREVIATIONS = _words("e.g. i.e. cf. vs. mr. mrs. ms. dr. prof. approx. ca. incl. excl. resp. st. viz. vol.")

# End a sentence unless a number follows.
BEFORE_NUMBER = _words("no. nos. fig. sec. p. pp.")

# End a sentence only if the next word is capitalised.
BEFORE_CAPITAL = _words(
    "etc. inc. ltd. co. corp. a.m. p.m. max. min. sec. hrs. jan. feb. mar. apr. jun. jul. aug. sep. "
    "sept. oct. nov. dec. dept. est. ext. al."
)

IMPERATIVES = _words(
    "accept add aggregate alert allow analyse analyze answer apply archive assign attach audit "
    "authenticate authorize avoid back backup block build cache calculate cancel check choose cleanup "
    "close collect compare compress compute configure confirm connect convert copy count create "
    "decrypt define delete deliver deny deploy design detect develop disable discard display do "
    "document download draw drop edit email emit enable encrypt enforce escalate estimate evaluate "
    "execute expire export expose extract fetch filter find flag forbid format forward generate give "
    "group guarantee handle hide identify implement import include index inform insert install "
    "integrate invite keep let limit link list load lock log maintain make manage map mask measure "
    "merge migrate minimize mirror monitor move never normalize notify offer open optimize parse "
    "pause permit persist plan preserve prevent print prioritize process produce prohibit prompt "
    "protect provide publish purge queue rate read receive record redact redirect refund refuse "
    "register reject remember remind remove rename render replace replicate report request require "
    "reserve reset resize resolve respond restart restore restrict resume retain retry return reuse "
    "review revoke rotate route run sanitize save scale scan schedule search select send serve set "
    "share show sign skip sort split start stop store stream submit suggest summarize support suspend "
    "sync synchronize tag test throttle track transfer transform translate trigger undo update upload "
    "use validate verify warn write"
)

STOP_WORDS = _words(
    "a about above after again against all also although always am an and another any anybody anyone "
    "are as at be because been before being below between both but by can cannot could did do does "
    "doesn don done down during each either else ensure ensures etc every everybody everyone few for "
    "from further had has have having he her here him his how however i if in into is isn it its "
    "itself just least less let like made make makes many may me might more most must mustn my need "
    "needed needs never no nobody none nor not now of off on once only onto or other ought our out "
    "over own per please required requires require same shall shan she should shouldn since so some "
    "such sure than that the their them then there these they this those through thus to too under "
    "until up upon us use used uses user users very via want wanted wants was we were what when where "
    "whether which while who whom whose why will with within without won would you your system "
    "systems application applications app software tool able mandatory service services component "
    "components"
)

QUESTION_STARTS = _words("should shall must do does did is are has have may what who why how when where")
