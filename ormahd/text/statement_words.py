"""Word lists of five languages (English, German, Spanish, French, Chinese), from which `text.statement` learns what a
memory says: that something changed, is negated, holds in one place, and so on.

All words are folded (`text.words.fold`). A text has to contain the whole word or, for lists of stems, a form of it.
Chinese words are searched as runs of characters.
"""

from __future__ import annotations

import re


def _set(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


EMPTY = _set(
    """
    a an the this that these those it its he she his her him they them their we us our ours i me my mine you your yours user
    is are was were be been being am has have had having do does did done will would shall should can could may might must
    of to in on at by for with from into onto over under as up out off about per via within through and or but so then than too
    there here which who whom whose what when where while if because since also just only very really quite please still
    already yet again ever always usually normally generally typically currently now today instead anymore longer
    uses use using used gets get got goes go went takes take taken needs need needed keeps keep kept makes make made
    der die das den dem des ein eine einen einem einer eines er sie es wir ihr ihre ihren ihrem sein seine seinen unser unsere
    unserem unseren mein meine ich mich mir du dein ist sind war waren wird werden wurde worden hat haben hatte kann muss soll darf im
    in am an auf bei von vom zu zum zur mit fur aus uber unter nach vor um ab seit bis als wie und oder aber auch noch nur schon
    immer jetzt nun dass wenn weil da dort hier man sich statt
    el la los las lo un una unos unas de del al a en con por para y o e u que se su sus mi mis nuestro nuestra nuestros nuestras
    es son era fue ha han hay esta estan ser estar como mas muy ya ahora tambien desde hasta cuando si sobre
    le les l d de du des un une et ou a au aux en dans par pour avec sur sous ce cet cette ces son sa ses notre nos leur leurs mon ma
    mes il elle on nous vous ils elles est sont etait ete etre a ont qui que se s n c qu deja encore aussi maintenant
    的 了 是 在 和 与 用 有 把 被 由 对 从 到 我 们 他 她 它 这 那 都 也 还 就 又 很 会 要 可 以 个 我们 使 已 现 着 过 为 于
    """
)
"""Function words and auxiliary verbs, which are never what a statement is about."""
NEGATIONS = _set(
    """
    not no never cannot without none nobody nothing neither nor nicht kein keine keinen keinem keiner keines nie niemals ohne nichts
    niemand weder no nunca jamas sin ningun ninguna ninguno nada nadie tampoco ne pas jamais sans aucun aucune rien
    personne nulle 不 没 无 非 别 勿 未 禁 refuses avoids refuse avoid dislike dislikes hates hate stopped quit
    """
)
"""Words that negate a statement, among them verbs of hate and avoidance. `no` is English and Spanish."""
NO_LONGER = re.compile(
    r"no longer|no more\b|any ?more\b|(?:has|have|had|is|are) ceased|nicht (?:mehr|langer)|keine?[nmrs]?\b.{0,40}\bmehr\b|ya no\b|dej(?:o|a|amos|aron|ado) de"
    r"|ne .{0,30}\bplus\b|n'.{0,30}\bplus\b|不再|不用了|没有?再|取消",
)
CHANGED = _set(
    """
    left became grown shrank shrunk risen rose fell fallen sold born broke broken split freed shut rebuilt rewritten rewrote cut quit swapped
    moved moving taken taking handed gone inherited died succeeds replaces supersedes switches
    gezogen umgezogen zog zieht abgelost ersetzt gewechselt wechselt umgestellt geandert andert erhoht gesenkt steigt stieg gestiegen sank gesunken
    sinkt verschoben verlegt verlangert verkurzt halbiert verdoppelt ubernahm ubernimmt ubernommen ubergeben ubergab abgeschafft eingestellt aufgehort
    aufgegeben gekundigt aktualisiert abgesagt umbenannt wurde geworden ging gestrichen verkauft gekauft behoben repariert fertig geschlossen
    geoffnet eroffnet umgestellt stattdessen gegangen
    cambia cambio cambiamos cambiado reemplaza reemplazo reemplazado sustituye sustituyo sustituido migra migramos migrado mude mudo mudamos mudado
    trasladado traslada aumenta aumento sube subio subido baja bajo bajado reduce reducido redujo duplica aplazado aplaza retrasa retrasado adelanta
    pasa pasamos paso dejo dejado renuncio asume asumio actualizado actualiza cancelado cancelada eliminado eliminada termino termina renombrado relevo amplia
    ampliado acortado vendio vendido arreglaron arreglado arreglada reparado reparada cerro cerrado abrio compro entregado
    remplace remplacee remplaces change changes migre migres demenage demenages deplace deplacee augmente baisse reduit reduite double
    reporte reportee avance avancee abandonne abandonnee arrete arretee cesse quitte repris reprend devient devenu devenue annule annulee supprime supprimee
    renomme releve passe passes passee passons prolonge raccourci nomme nommee succede vendu reparee repare fermee ferme ouvert achete livre
    """
)
"""Verb forms that say that something changed."""
CHANGED_STEMS = _set(
    """
    replac switch migrat chang renam upgrad downgrad bump rais lower increas decreas reduc halv doubl tripl quadrupl extend shorten postpon reschedul
    shift relocat transferr transfer convert revert swapp exchang revis correct cancel cancell dropp abandon retir deprecat remov discontinu stopp ceas
    resign join adopt supersed promot demot sunsett phas reassign rotat widen narrow tighten loosen lengthen start end solv fix shipp land launch grant
    deliver renegotiat relax delet kill revok lift expir resum restor finish complet clos open reopen merg approv reject accept install uninstall automat
    outsourc unblock demolish turn updat bann push pull succeed hir fir rewir
    """
)
"""Stems of English verbs whose forms in -ed and -ing say that something changed. Other forms do not, such as
"starts"."""
CHANGED_RUNS = re.compile(
    r"改(?:为|成|用|到|在|由|叫|名|选)|换(?:成|为|到|了|用)|变(?:成|为|更)|更(?:换|改|名|新)|升级|降级|升(?:到|至|为)|降(?:到|至|为|低)|提(?:高|前|升)|推迟|延(?:期|长|后)|缩短|减(?:少|半|到)"
    r"|增(?:加|至|到)|加倍|翻倍|搬|迁|移(?:到|交|至)|调(?:到|至|整|为|往)|接(?:手|任|替|管)|取(?:代|消)|代替|替(?:换|代)|停(?:止|用)|放弃|离开|离职|转(?:到|为|用|给|由)|涨|交给|不再|戒"
)
PARTICLES = re.compile(
    r"\b(?:took|taken|take[sn]?|taking) over\b|\bhanded (?:\w+ ){0,4}over\b|\bgave up\b|\bgiven up\b|\bgive up\b|\bgot rid\b|\bwent (?:up|down)\b|\bgone (?:up|down)\b"
    r"|\bpushed back\b|\bbrought forward\b|\bphased out\b|\brolled (?:back|out)\b|\bcut (?:to|from|in)\b|\bin place of\b|\bstepped down\b|\bpassed (?:to|on)\b|\bturned (?:on|off|into)\b"
    r"|\bgo(?:es)? (?:up|down) to\b|\ban die stelle\b|\bgibt .{0,20}\bab\b|\bzieht .{0,30}\bum\b|\bstellt .{0,30}\bum\b|\bpass(?:e|es|ons|ent) (?:a|de|au)\b|\bsube\b|\bbaja\b|\bla place de\b|\ben lugar de\b"
)
NOW = _set(
    """
    now nowadays currently today presently instead henceforth lately recently starting effective new newly finally latest
    jetzt nun inzwischen mittlerweile neuerdings kunftig nunmehr stattdessen aktuell ab neue neuer neues neuen heute seitdem
    ahora actualmente hoy nuevo nueva recientemente ultimamente
    maintenant desormais dorenavant actuellement nouveau nouvelle recemment depuis
    """
)
NOW_PHRASES = re.compile(
    r"\b(?:these days\b|"
    r"from (?:now|today|then|\w+day|next|this|january|february|march|april|may|june|july|august|september|october|november|december)\b|"
    r"as of\b|since\b|after all\b|from .{2,24} on(?:wards)?\b|"
    r"ab (?:dem|sofort|heute|januar|februar|marz|april|mai|juni|juli|august|september|oktober|november|dezember|montag|\d)|seit\b|"
    r"von nun an\b|fortan\b|a partir d\w*|desde\b|de ahora en adelante\b|a compter d\w*|depuis\b|d'ores et deja\b)"
    r"|现在|目前|如今|今后|以后|从.{1,8}起|开始|已经?|最近|新的?|起[，,]|改"
)
INSTEAD = re.compile(
    r"\b(?:instead of\b|rather than\b|in place of\b|replac(?:ed|es|ing)\b|supersed\w+|switch\w* .{0,24}\bfrom\b|from\b|no longer\b|"
    r"left\b|not\b|dropped\b|abandoned\b|gave up\b|given up\b|over from\b|succeed\w*\b|statt\b|anstatt\b|anstelle\b|ersetzt\b|"
    r"ersetz\w*\b|nicht mehr\b|keine?[nmrs]?\b|von\b|ablos\w*|lost\b|en lugar de\b|en vez de\b|sustituye\b|reemplaz\w+|ya no\b|"
    r"de\b|au lieu de\b|a la place de\b|remplac\w+|quitt\w+|ne\b|du\b|des\b)"
    r"|不再|代替|取代|接替|而不是|替换|从"
)
"""Matches words after which a statement names what was so before, such as "instead of"."""
FORMER = re.compile(
    r"\b(?:used to\b|former(?:ly)?\b|previous(?:ly)?\b|back then\b|in the past\b|old\b|fruher\b|ehemal\w+|bisher\w*|alte[rns]?\b|"
    r"antes\b|anterior\w*|avant\b|ancien\w*|precedent\w*)"
    r"|以前|原来|之前|曾"
)
ADDED = {
    "en": re.compile(
        r"\b(?:also|too|as well|in addition|additionally|besides|another|second|both|along with|on top)\b"
    ),
    "de": re.compile(r"\b(?:auch|ausserdem|zusatzlich|ebenfalls|zudem|noch ein\w*|zweite\w*|weitere\w*|neben)\b"),
    "es": re.compile(r"\b(?:tambien|ademas|asimismo|otro|otra|segundo|segunda)\b"),
    "fr": re.compile(r"\b(?:aussi|egalement|en plus|de plus|en outre|autre|deuxieme|second\w*)\b"),
    "zh": re.compile(r"也|还(?!是)|另外|另一|此外|同时|第二"),
}
"""Language -> pattern of words which say that an earlier statement still holds ("also", "another"). There is one for
each language, because German `also` means "thus"."""
LANGUAGES = {
    "en": _set("the is are of to and for with in on at has was were by from that this our we a not now it"),
    "de": _set(
        "der die das ist und mit von im am auf nicht ein eine einen wird werden fur bei zu den dem statt sind wir jetzt um ab"
    ),
    "es": _set("el la los las es del que en con por para una un se y de son no ahora al su nuestra nuestro"),
    "fr": _set("le la les est des du et dans pour avec sur une un au aux nous se ce qui sont a l d ne pas"),
}
CONDITIONS = _set(
    "if when unless except while during whenever wenn falls sobald ausser cuando si salvo mientras quand si sauf lorsque"
)
PLACES = _set(
    """
    production prod live staging stage test tests testing dev development develop local localhost demo sandbox preview qa uat ci
    canary beta alpha nightly produktion entwicklung lokal testumgebung produktiv produccion pruebas desarrollo recette preprod developpement essai
    ios android web windows linux macos mac desktop mobile tablet phone browser chrome firefox safari handy
    frontend backend client server database api worker workers admin internal external public private guest guests user users
    customer customers employee employees student students kunde kunden gaste gast clientes invitados invites
    free paid paying pro premium basic enterprise trial standard plus team
    minimum maximum min max primary secondary replica read reads write writes inbound outbound incoming outgoing upload uploads download
    downloads request requests response input output import export client-side
    winter summer spring autumn sommer fruhling herbst verano invierno ete hiver weekday weekdays weekend weekends werktags wochenende
    morning evening night afternoon morgens abends nachts nachmittags vormittags manana tarde noche matin soir nuit
    first third last front back left right upper lower north south east west home office work private buro zuhause casa oficina bureau maison
    soft hard cold warm hot small large big new old legacy daily weekly monthly yearly hourly annual taglich wochentlich monatlich jahrlich
    diario semanal mensual quotidien hebdomadaire mensuel
    测试 生产 开发 预发 本地 前端 后端 客户 内部 外部 手机 电脑 网页 周末 工作日 早上 晚上 冬天 夏天 免费 付费 线上
    """
)
"""Words that distinguish variants of a thing, by place, time, people or part."""
LABELLED = _set(
    """
    topic item case project part unit station sensor printer pump tank dock pier lesson exercise rule article paragraph volume chair seat desk bed
    level tier week day quarter tenant box rack shelf order invoice contract
    camera line run step phase ticket issue error chapter room server machine lane slot stage sprint batch section part table figure
    episode gate platform group page question bug task channel pin axis layer row column core gpu disk shard zone warehouse
    floor flat bus tram flight class grade test exam round milestone draft option plan variant building track bay
    kamera raum zimmer gruppe linie etappe phase halle gleis stock haus sala linea fase grupo habitacion etapa salle ligne etape
    groupe chambre quai
    """
)
"""Words for things that are named by a number, such as camera 3."""
OWNING = re.compile(
    r"\b(?:own(?:s|ed|er)?|lead(?:s|er)?|led|head(?:s|ed)?|manag(?:es?|ed|er)|maintain(?:s|ed|er)?|responsible|in charge|belongs? to|run by|handled? by|charge of|contact|"
    r"report(?:s|ing)? to|chair(?:s|ed)?|on call|on-call|assigned|boss|deputy|admin of|hosts?|verantwort\w*|zustandig\w*|leit(?:et|ung|er|erin)|betreu\w*|gehort|ansprechpartner\w*|"
    r"chef\w*|kummert|responsable|encargad\w*|dirig\w*|lider\w*|jef[ae]|lleva|gestion\w*|dirige|gere|charge|pilote|chef|occupe)\b|负责|主管|管理|领导|经理|归|带领"
)
"""Matches words for roles that one person has at a time, such as owner or boss."""
LIVING = re.compile(
    r"\b(?:lives?|living|resides?|based|located|stands|lies|hangs|works? (?:at|for|as|in)|employed|born|married|hosted|deployed|stored|kept|is in|is at|is with|"
    r"lebt|wohnt|arbeitet|liegt|steht|hangt|vive|trabaja|esta en|habita|habite|travaille|se trouve|vit)\b|住|工作|位于|放在|存在"
)
"""Matches words that say where a thing or person is ("lives", "is stored"). It is at one place at a time."""
PREFERRING = re.compile(
    r"\b(?:prefer\w*|likes?|loves?|wants?|favou?rs?|hates?|dislikes?|rather|fond of|enjoys?|mag|bevorzug\w*|liebt|gern\w*|lieber|will|prefier\w*|gusta\w*|quier\w*|"
    r"prefer\w*|aime|adore|deteste|veut)\b|喜欢|偏好|爱|想要|讨厌"
)
PAST = re.compile(
    r"\b(?:was|were|had|did|went|ran|happened|occurred|met|visited|saw|found|yesterday|last (?:week|month|year|night)|ago|war|waren|hatte|hatten|gestern|letzte\w*|fue|estuvo|ayer|hubo|etait|a eu|hier|a ete)\b"
    r"|昨天|上周|上个月|去年|曾"
)
ADDRESSING = re.compile(
    r"\b(?:you|your|yours|thanks|thank|thx|hey|hi|hello|wow|yeah|yep|yup|cool|awesome|bye|haha|lol|congrats|sure"
    r"|du|dir|dich|dein\w*|danke|hallo|tu|te|gracias|hola|vous|merci|salut|bonjour)\b|你|您|谢谢"
)
"""Matches words of people who talk to each other: addresses, thanks and exclamations."""
OPPOSITES = tuple(
    frozenset(pair.split())
    for pair in """
    dark light/tabs spaces/tab space/single double/public private/enabled disabled/enable disable/synchronous asynchronous/required optional/
    mandatory optional/allowed forbidden/allowed prohibited/allowed banned/allow forbid/permitted forbidden/open closed/opened closed/manual automatic/
    include exclude/included excluded/likes dislikes/loves hates/likes hates/accept reject/accepted rejected/on off/upper lower/true false/
    encrypted unencrypted/mutable immutable/strict loose/rebase merge/deny allow/prefer avoid/prefers avoids/use avoid/vegetarian vegan/ascending descending/
    paid free/signed unsigned/eager lazy/local remote/online offline/active inactive/active paused/started stopped/running stopped/blocked unblocked/
    blocked done/pending done/pending approved/planned done/planned cancelled/planned canceled/draft published/draft final/beta stable/alpha beta/open merged/unfinished finished/
    passing failing/broken fixed/works broken/full empty/long short/short detailed/hot cold/early late/before after/left right/monthly weekly/
    daily weekly/hourly daily/monthly yearly/weekly biweekly/quarterly monthly/first last/internal external/available unavailable/single married/married divorced/
    employed unemployed/awake asleep/in out/unlimited limited/supported unsupported/possible impossible/morning afternoon/morning evening/
    hell dunkel/offen geschlossen/geoffnet geschlossen/erlaubt verboten/pflicht freiwillig/aktiv inaktiv/an aus/offentlich privat/kurz lang/morgens abends/
    taglich wochentlich/wochentlich monatlich/manuell automatisch/abierto cerrado/abierta cerrada/permitido prohibido/activo inactivo/activado desactivado/publico privado/
    manual automatico/obligatorio opcional/corto largo/diario semanal/semanal mensual/ouvert ferme/ouverte fermee/autorise interdit/actif inactif/active desactive/
    public prive/manuel automatique/obligatoire facultatif/court long/quotidien hebdomadaire/允许 禁止/公开 私有/手动 自动/开放 关闭/可以 不能/开启 关闭/必须 可选
    """.replace("\n", " ").split("/")
)  # fmt: skip

SELF = _set(
    "user i me my mine we our us ich wir mein meine mich mir uns unser unsere usuario yo mi mis me nosotros nuestro nuestra je nous mon ma mes moi utilisateur notre nos"
)
SELF_RUNS = re.compile("用户|我")
BOUNDS = _set(
    """
    until since before after from at least most minimum maximum min max below above under over first last initially finally starts ends start end begins by
    bis seit vor nach ab mindestens hochstens unter uber zuerst zuletzt hasta desde antes despues minimo maximo primero ultimo
    jusqu'a depuis avant apres moins plus premier dernier
    """
)
"""Words before a value which say that it is the beginning, the end or a limit of a range."""

VERBS = frozenset(
    [
        "is",
        "are",
        "was",
        "were",
        "be",
        "has",
        "have",
        "had",
        "uses",
        "use",
        "used",
        "runs",
        "run",
        "ran",
        "lives",
        "live",
        "works",
        "work",
        "listens",
        "takes",
        "take",
        "costs",
        "cost",
        "needs",
        "need",
        "wants",
        "want",
        "likes",
        "like",
        "prefers",
        "prefer",
        "stays",
        "lies",
        "stands",
        "belongs",
        "owns",
        "leads",
        "answers",
        "expires",
        "ends",
        "starts",
        "begins",
        "lasts",
        "holds",
        "gets",
        "keeps",
        "moved",
        "moves",
        "goes",
        "go",
        "comes",
        "happens",
        "will",
        "must",
        "should",
        "may",
        "can",
        "cannot",
        "can't",
        "isn't",
        "doesn't",
        "don't",
        "replaced",
        "switched",
        "chose",
        "decided",
        "ist",
        "sind",
        "war",
        "hat",
        "haben",
        "wird",
        "werden",
        "lauft",
        "kostet",
        "wohnt",
        "liegt",
        "steht",
        "hangt",
        "nutzt",
        "verwendet",
        "leitet",
        "braucht",
        "beginnt",
        "endet",
        "heisst",
        "soll",
        "muss",
        "darf",
        "kann",
        "gehort",
        "es",
        "son",
        "esta",
        "estan",
        "usa",
        "usamos",
        "tiene",
        "cuesta",
        "vive",
        "trabaja",
        "necesita",
        "termina",
        "empieza",
        "pasa",
        "ahora",
        "sube",
        "est",
        "sont",
        "a",
        "ont",
        "utilise",
        "utilisons",
        "coute",
        "habite",
        "travaille",
        "dure",
        "commence",
        "finit",
        "passe",
        "doit",
        "peut",
        "是",
        "在",
        "用",
        "住",
        "由",
        "有",
        "为",
        "改",
        "换",
        "需",
        "能",
    ]
)
"""Verbs that end the subject of a sentence."""


DOMAINS = {
    "home": _set(
        """
        live lives living lived reside resides apartment flat house home address rents neighbourhood
        neighborhood district landlord wohne wohnt wohnen wohnung gezogen ziehe zieht umgezogen adresse vive vivo vivir mudo mude mudamos piso
        habite habiter habitons demenage demenages appartement logement 住 搬 家 住址 地址
        """
    ),
    "work": _set(
        """
        works work working job employed employer engineer developer manager designer analyst company joined join hired position role career
        title director consultant teacher nurse doctor head lead leads chief officer started quit resigned promoted arbeitet arbeite arbeit
        stelle firma leiter leiterin leitung leitet trabaja trabajo empresa jefe jefa directora puesto travaille poste entreprise
        cheffe chef directeur directrice 工作 公司 经理 职位 担任 任职 负责人 上班
        """
    ),
    "price": _set(
        """
        cost costs price prices pay pays paid bill invoice fee fees charge charges rate rent salary budget monthly yearly licence license
        subscription euros dollars kostet kosten preis miete gebuhr zahlen zahle beitrag gehalt cuesta precio pagamos alquiler cuota tarifa
        coute prix loyer payons tarif abonnement cotisation 价格 费用 租金 月费 元 工资
        """
    ),
    "when": _set(
        """
        meeting standup sync retro review call lesson class appointment demo deadline due date launch release starts start begins opens closes
        opening every weekly daily monthly morning noon afternoon evening planned scheduled takes place termin besprechung sitzung runde treffen frist uhr
        reunion cita plazo horario hora rendez echeance horaire heure 会议 周会 例会 截止 时间 开会
        """
    ),
    "state": _set(
        """
        open closed blocked waiting pending progress planned started done finished complete completed fixed broken works working down running
        live shipped released launched cancelled canceled rejected approved granted accepted delivered merged ready paused stopped draft published resolved
        unresolved beta alpha deprecated retired active inactive sold available unavailable offline online stuck failing passing solved unsolved supported unsupported stable unstable
        offen geschlossen blockiert fertig erledigt geplant abgeschlossen kaputt repariert lauft abgesagt genehmigt abgelehnt bezahlt
        abierto cerrado bloqueado pendiente terminado hecho roto averiada averiado arreglado arreglada arreglaron reparada aprobado cancelado listo
        ouvert ferme bloque attente termine fini casse repare annule approuve refuse pret panne
        完成 未完成 阻塞 等待 已完成 坏 修好 修复 取消 批准 上线 关闭 打开 暂停
        """
    ),
    "owner": _set(
        """
        owner owns own owned lead leads led leads maintains maintained maintainer responsible charge contact belongs manages handles reports reviews
        approves runs hosts chairs phone advisor deputy zustandig verantwortlich leitet leitung ansprechpartner betreut kummert verantwortet
        responsable encargado encargada lleva dirige gestiona occupe dirige gere contact referent 负责 主管 管理 联系人 经理 担任
        """
    ),
    "limit": _set(
        """
        limit limits maximum minimum max min up to most least quota cap size timeout expires expire valid retention keep kept window
        threshold allowed days hours minutes accepts erlaubt grenze hochstens maximal mindestens gultig frist limite maximo minimo admite valide
        plafond maximale maximal autorise duree 最大 最多 上限 限制 不能超过 有效期 最少
        """
    ),
    "tool": _set(
        """
        use uses using used built build written run runs hosted deployed deploy stored store sent send with through via tracked managed format
        formatted linted tested tests test drawn generated backed monitored nutzen verwenden benutzen benutzt nutzt gebaut gespeichert
        usamos utilizamos usa gestiona utilisons utilise stockes heberge heberges 使用 采用 用 部署 存储
        """
    ),
    "taste": _set(
        """
        prefer prefers likes like loves hates want wants dislikes favourite favorite favours enjoys rather avoid avoids never always mag bevorzugt gern gerne lieber
        liebt hasst prefiere gusta gustan quiere odia prefere aime veut deteste 喜欢 偏好 讨厌 爱 想要 希望
        """
    ),
    "may": _set(
        """
        may allowed can forbidden must required need needs support supports supported possible impossible optional mandatory accept accepts accepted
        permitted prohibited banned has have darf durfen erlaubt verboten muss mussen moglich unterstutzt puede pueden permitido prohibido debe admiten admite
        peut peuvent interdit autorise doit doivent possible 支持 允许 禁止 可以 必须 不支持 需要
        """
    ),
}
"""General topic -> words that show it."""
MOVING = re.compile(
    r"\bmov(?:ed|e|es|ing) (?:in|into|to|out|house|flat)\b|\b(?:gezogen|umgezogen|zieht? .{0,30}\bum)\b|\bmud(?:e|o|amos|aron)\b|\bdemenag\w+"
)
"""Matches phrases for moving house. They show the topic `home`."""
