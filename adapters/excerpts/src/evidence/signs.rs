//! Words that make a line worth showing, in the languages that programs and people write most.
//!
//! Each is one word, or two characters of a script without spaces. A sign that many lines of a
//! text have says nothing there, so a word may be in the list that is common in some texts.

/// What has gone wrong.
pub(super) const TROUBLE: &str = "\
    error errors err fail failed fails failure failures failing fatal panic panicked exception \
    traceback abort aborted crash crashed denied refused rejected forbidden unauthorized invalid \
    illegal corrupt corrupted mismatch mismatched missing unreachable timeout undefined \
    unresolved conflict conflicts killed segfault overflow leak leaked deadlock lost broken \
    critical emerg emergency alert vulnerable vulnerability violation unexpected cannot unable \
    exceeded exhausted inconsistent malformed orphaned stale stuck unsound unsoundness regression \
    fehler fehlgeschlagen fehlt ungültig abgebrochen verweigert gescheitert \
    erreur échec échoué invalide refusé interdit introuvable impossible \
    fallo falló fallido inválido denegado rechazado imposible falta \
    erro falha falhou inválida negado recusado \
    errore fallito negato rifiutato impossibile \
    fout mislukt geweigerd ongeldig virhe fel misslyckades fejl feil błąd odmowa nieudane \
    ошибка ошибки сбой отказ отказано неверный недопустимый сбоя провал \
    hata başarısız reddedildi geçersiz خطأ فشل مرفوض שגיאה נכשל \
    错误 错誤 錯誤 失败 失敗 异常 異常 崩溃 拒绝 拒絕 超时 超時 无法 無法 无效 無效 中断 損壞 损坏 冲突 \
    告警 故障 泄漏 丢失 エラ 不正 例外 拒否 欠落 오류 실패 예외 거부 누락 \
    ✗ ✘ ❌ ✖ 🔥 🚨";

/// What may be wrong, what is old, and what is only to be done.
pub(super) const WARNING: &str = "\
    warn warning warnings caution deprecated obsolete unsafe insecure unsupported unused \
    experimental todo fixme hack xxx workaround retry retrying skipped degraded outdated \
    removed breaking password passwd secret credential credentials private \
    warnung achtung veraltet attention avertissement déconseillé obsolète \
    advertencia obsoleto atención aviso avviso deprecato waarschuwing varning ostrzeżenie \
    предупреждение внимание устарел uyarı تحذير אזהרה \
    警告 注意 弃用 廢棄 废弃 过时 跳过 非推 경고 주의 ⚠";

/// What must be done, or must not.
pub(super) const ORDER: &str = "\
    not never must don doesn isn shouldn mustn avoid forbidden required mandatory prohibited \
    only except unless instead until without nor neither \
    nicht niemals nie kein keine darf muss müssen verboten \
    jamais pas ne doit obligatoire interdit sauf \
    nunca jamás debe prohibido salvo não deve proibido mai deve vietato \
    niet nooit inte aldrig ikke aldri nie nigdy wolno \
    не нельзя никогда должен запрещено \
    değil asla yasak لا يجب ممنوع אסור \
    不要 不得 禁止 切勿 请勿 不可 不能 必须 必須 务必 勿用 严禁 嚴禁 ない 厳禁 금지 마세 절대 필수";

/// The first eight bytes of the lines that enclose a conflict, alone and in a diff.
pub(super) const CONFLICT: [&str; 8] = [
    "<<<<<<< ", ">>>>>>> ", "+<<<<<<<", "+>>>>>>>", "-<<<<<<<", "->>>>>>>", "++<<<<<<", "++>>>>>>",
];
