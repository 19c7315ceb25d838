"""Words that show what a statement is about, in general: where somebody lives, what a thing costs, how far it has come.

English, German, Spanish, French, Chinese; folded (`text.words.fold`).
"""

from __future__ import annotations

import re


def _set(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


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
"""What a statement is about, in general: words that show that two speak of one side of a thing."""
MOVING = re.compile(
    r"\bmov(?:ed|e|es|ing) (?:in|into|to|out|house|flat)\b|\b(?:gezogen|umgezogen|zieht? .{0,30}\bum)\b|\bmud(?:e|o|amos|aron)\b|\bdemenag\w+"
)
"""Moving house, which is of the domain home."""
