//! Logs in Chinese and in other languages.

use crate::{
    kind::Generator,
    scene::{Needle, NeedleSort, Scene, time_of_day},
};

/// A log in Chinese.
pub(crate) struct ChineseLog;

const CHINESE_THINGS: [&str; 24] = [
    "订单",
    "库存",
    "用户",
    "会话",
    "缓存",
    "索引",
    "账单",
    "支付",
    "消息",
    "队列",
    "任务",
    "节点",
    "网关",
    "路由",
    "配置",
    "日志",
    "文件",
    "图片",
    "报表",
    "地址",
    "优惠券",
    "购物车",
    "物流",
    "仓库",
];

const CHINESE_PLACES: [&str; 12] = [
    "华东一区",
    "华东二区",
    "华北一区",
    "华北三区",
    "华南一区",
    "西南一区",
    "香港",
    "新加坡",
    "法兰克福",
    "东京",
    "孟买",
    "硅谷",
];

const CHINESE_FAILURES: [&str; 10] = [
    "{name}分片校验和不一致，偏移量{n}",
    "无法连接{name}数据库，已重试{n}次",
    "{name}磁盘空间耗尽，剩余{n}字节",
    "{name}进程崩溃，信号{n}",
    "写入{name}时权限被拒绝，编号{n}",
    "{name}证书已过期，序列号{n}",
    "解析{name}报文出错，位置{n}",
    "{name}主从复制中断，落后{n}条",
    "事务{n}回滚：违反{name}唯一约束",
    "{name}丢失{n}条消息",
];

const CHINESE_ODDITIES: [&str; 8] = [
    "{name}切换到备用机房，线路{n}",
    "{name}的时钟快了{n}毫秒",
    "租户{n}首次启用{name}",
    "{name}升为主节点，任期{n}",
    "{name}改用端口{n}",
    "{name}的负责人变更为工号{n}",
    "{name}挂载了卷{n}",
    "{name}从提交{n}构建",
];

const CHINESE_RULES: [&str; 8] = [
    "迁移{n}结束之前请勿重启{name}",
    "禁止删除{name}，作业{n}仍在读取",
    "不要把{name}调到{n}以上",
    "切勿在{name}上执行清理，工单{n}未关闭",
    "{name}不得升级到{n}以后的版本",
    "请不要手工修改{name}，版本{n}由工具生成",
    "{name}不能与作业{n}同时运行",
    "严禁对外开放{name}的端口{n}",
];

impl Generator for ChineseLog {
    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        let clock = time_of_day(line);
        let thing = scene.dice.skewed(&CHINESE_THINGS).to_owned();
        let place = scene.dice.skewed(&CHINESE_PLACES).to_owned();
        let (user, id, ms) = (scene.user(), scene.dice.hex(6), scene.number(2, 900));
        if scene.is_one_off(90) {
            let text = match scene.dice.below(3) {
                0 => format!("重新加载{thing}参数，共{ms}项"),
                1 => format!("{place}新增工作线程{ms}个"),
                _ => format!("归档{thing}历史，保留{ms}天"),
            };
            return format!("2026-04-17 {clock} [信息] {text}");
        }
        let text = match scene.dice.below(20) {
            0..=5 => format!("处理{thing}请求 {id} 完成，耗时{ms}毫秒"),
            6..=9 => format!("用户 {user} 查询{thing}，返回{ms}条"),
            10..=12 => format!("{place}{thing}同步完成，版本 {id}"),
            13..=14 => format!("从{thing}队列取出任务 {id}"),
            15 => format!("{thing}命中率百分之{}", ms % 100),
            16 => format!("{place}心跳正常，延迟{ms}毫秒"),
            17 => {
                return format!(
                    "2026-04-17 {clock} [警告] {thing}响应较慢：{ms}毫秒，正在重试 {id}"
                );
            }
            18 => return format!("2026-04-17 {clock} [错误] 未找到{thing} {id}，返回404"),
            _ => return format!("2026-04-17 {clock} [调试] 写入{thing} {ms} 行"),
        };
        format!("2026-04-17 {clock} [信息] {text}")
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, line: usize) -> Needle {
        let (templates, level): (&[&str], _) = match sort {
            NeedleSort::Failure => (&CHINESE_FAILURES, "错误"),
            NeedleSort::Odd => (&CHINESE_ODDITIES, "信息"),
            NeedleSort::Instruction => (&CHINESE_RULES, "信息"),
        };
        let template = scene.dice.pick(templates).to_owned();
        let phrase = scene.filled(&template);
        let text = format!("2026-04-17 {} [{level}] {}", time_of_day(line), phrase.text);
        phrase.within(text)
    }

    fn command(&mut self, scene: &mut Scene) -> String {
        format!("cat logs/{}.log", scene.service())
    }
}

/// The words of a log in one language: routine lines, then what a failure, an oddity and an
/// instruction say.
struct Language {
    routine: [&'static str; 5],
    needles: [&'static str; 3],
}

static LANGUAGES: [Language; 8] = [
    Language {
        routine: [
            "Anfrage {id} an {noun} in {ms} ms beantwortet",
            "{ms} Zeilen nach {noun} geschrieben",
            "Zwischenspeicher für {noun} ist {ms} s alt",
            "Warnung: {noun} antwortet langsam ({ms} ms)",
            "Benutzer {user} hat sich angemeldet",
        ],
        needles: [
            "Prüfsumme von {name} stimmt nicht, Block {n}",
            "{name} läuft jetzt im Profil {n}",
            "{name} darf vor Umzug {n} nicht neu gestartet werden",
        ],
    },
    Language {
        routine: [
            "requête {id} vers {noun} servie en {ms} ms",
            "{ms} lignes écrites dans {noun}",
            "cache de {noun} âgé de {ms} s",
            "avertissement : {noun} répond lentement ({ms} ms)",
            "connexion de {user}",
        ],
        needles: [
            "échec de la réplication de {name}, segment {n}",
            "{name} passe au profil {n}",
            "ne pas redémarrer {name} avant la migration {n}",
        ],
    },
    Language {
        routine: [
            "petición {id} a {noun} atendida en {ms} ms",
            "{ms} filas escritas en {noun}",
            "caché de {noun} con {ms} s de edad",
            "aviso: {noun} responde despacio ({ms} ms)",
            "el usuario {user} ha entrado",
        ],
        needles: [
            "no se pudo abrir {name}, bloque {n} dañado",
            "{name} usa ahora el perfil {n}",
            "no reinicie {name} antes de la migración {n}",
        ],
    },
    Language {
        routine: [
            "запрос {id} к {noun} выполнен за {ms} мс",
            "записано {ms} строк в {noun}",
            "кэш {noun} возрастом {ms} с",
            "предупреждение: {noun} отвечает медленно ({ms} мс)",
            "пользователь {user} вошёл",
        ],
        needles: [
            "сбой репликации {name}, сегмент {n}",
            "{name} теперь работает с профилем {n}",
            "не перезапускайте {name} до миграции {n}",
        ],
    },
    Language {
        routine: [
            "要求 {id} を {noun} が {ms} ミリ秒で処理しました",
            "{noun} に {ms} 行を書き込みました",
            "{noun} のキャッシュは {ms} 秒前のものです",
            "警告: {noun} の応答が遅れています ({ms} ミリ秒)",
            "{user} がログインしました",
        ],
        needles: [
            "{name} のチェックサムが一致しません、ブロック {n}",
            "{name} は設定 {n} に切り替わりました",
            "移行 {n} が終わるまで {name} を再起動しないでください",
        ],
    },
    Language {
        routine: [
            "{noun} 요청 {id} 처리 {ms} 밀리초",
            "{noun} 에 {ms} 행을 기록함",
            "{noun} 캐시 나이 {ms} 초",
            "경고: {noun} 응답이 느림 ({ms} 밀리초)",
            "사용자 {user} 로그인",
        ],
        needles: [
            "{name} 복제 실패, 구간 {n}",
            "{name} 이(가) 프로필 {n} 로 바뀜",
            "이전 {n} 이 끝나기 전에 {name} 을(를) 다시 시작하지 마십시오",
        ],
    },
    Language {
        routine: [
            "pedido {id} a {noun} atendido em {ms} ms",
            "{ms} linhas gravadas em {noun}",
            "cache de {noun} com {ms} s",
            "aviso: {noun} responde devagar ({ms} ms)",
            "o usuário {user} entrou",
        ],
        needles: [
            "falha ao gravar {name}, bloco {n} corrompido",
            "{name} passou ao perfil {n}",
            "não reinicie {name} antes da migração {n}",
        ],
    },
    Language {
        routine: [
            "żądanie {id} do {noun} obsłużone w {ms} ms",
            "zapisano {ms} wierszy w {noun}",
            "pamięć {noun} ma {ms} s",
            "ostrzeżenie: {noun} odpowiada wolno ({ms} ms)",
            "użytkownik {user} zalogował się",
        ],
        needles: [
            "błąd replikacji {name}, segment {n}",
            "{name} działa teraz w profilu {n}",
            "nie uruchamiaj ponownie {name} przed migracją {n}",
        ],
    },
];

/// A log in one of several languages.
pub(crate) struct LocalizedLog {
    language: &'static Language,
}

impl LocalizedLog {
    pub(crate) fn new(scene: &mut Scene) -> Self {
        let place = scene.dice.below(LANGUAGES.len());
        let [first, ..] = &LANGUAGES;
        let language = LANGUAGES.get(place).unwrap_or(first);
        Self { language }
    }
}

impl Generator for LocalizedLog {
    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        let template = scene.dice.skewed(&self.language.routine).to_owned();
        let text = template
            .replace("{id}", &scene.dice.hex(7))
            .replace("{noun}", &scene.module())
            .replace("{ms}", &scene.number(2, 900).to_string())
            .replace("{user}", &scene.user());
        format!("[{}] {}: {text}", time_of_day(line), scene.service())
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, line: usize) -> Needle {
        let [failure, oddity, rule] = self.language.needles;
        let phrase = scene.filled(match sort {
            NeedleSort::Failure => failure,
            NeedleSort::Odd => oddity,
            NeedleSort::Instruction => rule,
        });
        let text = format!(
            "[{}] {}: {}",
            time_of_day(line),
            scene.service(),
            phrase.text
        );
        phrase.within(text)
    }

    fn command(&mut self, scene: &mut Scene) -> String {
        format!("tail -n +1 {}.log", scene.service())
    }
}
