//! Pages that scripts fill, by a program that stands for a browser, and by a real one if it is
//! here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use kit::harness::skip;
use tempfile::TempDir;

use super::*;

/// Where Debian has a Chromium.
const BROWSERS: [&str; 2] = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];

fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("browser");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn with(program: PathBuf) -> ReaderSettings {
    ReaderSettings {
        chromium: Some(program),
        ..ReaderSettings::default()
    }
}

/// Promise: A Chromium is started for a page whose server has sent hardly any text, and for no
/// other; it has no variable of the server and a profile of its own, which is deleted.
#[tokio::test]
async fn a_browser_is_started_for_a_page_without_text() {
    let folder = tempfile::tempdir().unwrap();
    let known = "PATH|HOME|TMPDIR|PWD|OLDPWD|SHLVL|_";
    let program = script(
        folder.path(),
        &format!(
            "echo run >>{}\necho \"<p>$*</p><p>unknown $(env | grep -cvE '^({known})=')</p>\"\n\
             echo \"<p>home $HOME</p>\"; touch \"$HOME/kept\"",
            folder.path().join("runs").display()
        ),
    );
    let runs = || fs::read_to_string(folder.path().join("runs")).unwrap_or_default();
    let answer: Answer = |line, _| match line {
        "get /moved" => b"HTTP/1.1 302 Found\r\nlocation: /short\r\n\r\n".to_vec(),
        _ => native(line),
    };
    let web = ReadingWeb::start(answer, with(program)).await;
    for path in [
        "/good",
        "/status/403",
        "/status/500",
        "/pdf",
        "/nested",
        "/metadata",
    ] {
        assert_eq!(web.read(path).await.is_ok(), path == "/good", "{path}");
    }
    assert_eq!(runs(), "");
    let page = web.read("/short").await.unwrap();
    assert_eq!(runs(), "run\n");
    assert_eq!(page.fetched_by, FetchStrategy::Chromium);
    let text = page.markdown.replace('\\', "");
    for part in [
        "--proxy-server=http://127.0.0.1:",
        "--proxy-bypass-list=",
        "http://example.com/short",
        "unknown 0",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("--no-sandbox"), "{text}");
    // It is shown, and its domain judged, by the address to which its server has led.
    let moved = web.read("/moved").await.unwrap();
    assert_eq!(moved.url, "http://example.com/short");
    let home = text.split("home ").nth(1).unwrap().trim();
    assert!(home.contains("respondent-"), "{home}");
    while Path::new(home).exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a process of a browser and its profile are gone. The file has the number of the one
/// and the path of the other.
async fn gone(started: &Path) {
    let line = fs::read_to_string(started).unwrap();
    let (process, home) = line.trim().split_once(' ').unwrap();
    let state = || fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The system may reap the process later.
    while !state().is_empty() && !state().contains(") Z") || Path::new(home).exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Promise: If Chromium has no page, the failure of the page itself stands. A browser that takes
/// too long, or that nobody waits for any more, is ended with all that it has started, and its
/// profile is deleted.
#[tokio::test]
async fn a_browser_that_fails_or_is_not_wanted_leaves_nothing() {
    for text in ["exit 1", "echo '<p>short</p>'", "kill -9 $$"] {
        let folder = tempfile::tempdir().unwrap();
        let program = script(folder.path(), text);
        let web = ReadingWeb::start(|line, _| native(line), with(program)).await;
        let read = web.read("/short").await;
        assert_eq!(read.unwrap_err(), PageError::TooShort(99), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let program = script(
        folder.path(),
        &format!(
            "sleep 1000 &\necho $! $HOME >{0}.new; touch $HOME/kept; mv {0}.new {0}\nwait",
            started.display()
        ),
    );
    let web = ReadingWeb::start(|line, _| native(line), with(program.clone())).await;
    let reader = Arc::clone(&web.reader);
    let read = tokio::spawn(async move { reader.read("http://example.com/short").await });
    while !started.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    read.abort();
    gone(&started).await;
    assert_eq!(web.memory.used(), 0);

    fs::remove_file(&started).unwrap();
    let limits = FetchLimits {
        total: Duration::from_secs(2),
        ..FetchLimits::default()
    };
    let dialler = Arc::clone(&web.net) as Arc<dyn Dialler>;
    let reader = WebReader::with_limits(&dialler, &tls(), &web.memory, with(program), limits);
    let read = reader.read("http://example.com/short").await;
    assert_eq!(read.unwrap_err(), PageError::TooShort(99));
    gone(&started).await;
}

/// A Chromium of this system, and a folder that must stay. It runs without its sandbox for root.
fn real_browser() -> Option<(PathBuf, TempDir)> {
    let found = BROWSERS.into_iter().find(|path| Path::new(path).exists())?;
    let folder = tempfile::tempdir().unwrap();
    let sandbox = if rustix::process::geteuid().is_root() {
        "--no-sandbox"
    } else {
        ""
    };
    let text = format!(
        "echo $$ $HOME >{}/started; exec {found} {sandbox} \"$@\"",
        folder.path().display()
    );
    let program = script(folder.path(), &text);
    Some((program, folder))
}

/// Promise: Whatever a page does in Chromium, no connection leads to an address that the proxy
/// itself may not open, and no file is read.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_reaches_nothing_that_is_forbidden() {
    let Some((program, _folder)) = real_browser() else {
        return skip("there is no Chromium in /usr/bin");
    };
    // The pages are asked for with the ports of two servers on this machine.
    let answer: Answer = |line, _| {
        let page = |script: &str| {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n";
            let ports = "const [tcp,udp]=location.search.slice(1).split('-');";
            format!("{head}<p id=a>wait</p><script>{ports}{script}</script>").into_bytes()
        };
        let redirect = |to: &str| {
            format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\nconnection: close\r\n\r\n")
                .into_bytes()
        };
        let trap = "['http://127.0.0.1:8080/trap','http://169.254.169.254/trap',\
            'http://[::1]:8080/trap','http://[::ffff:7f00:1]:8080/trap','http://localhost/trap',\
            'http://local.example/trap','http://2130706433:8080/trap','http://both.example/trap',\
            'http://example.com:9200/trap','https://192.168.0.1/trap','https://10.0.0.1:8443/trap',\
            'http://unknown.example/trap','file:///etc/hostname','ftp://10.0.0.1/trap',\
            '/to-local','/to-file',`http://127.0.0.1:${tcp}/trap`,`http://localhost:${tcp}/trap`,\
            `https://127.0.0.1:${tcp}/trap`]";
        let (path, ports) = line.split_once('?').unwrap_or((line, ""));
        match path {
            "get /scripts" => page(&format!(
                "const all={trap};for(const to of all){{for(const kind of ['img','iframe']){{\
                 const it=document.createElement(kind);it.src=to;document.body.append(it)}}}}\
                 for(const to of ['10.0.0.1','127.0.0.1:'+tcp])\
                 try{{new WebSocket(`ws://${{to}}/trap`)}}catch(e){{}}\
                 try{{navigator.sendBeacon('http://10.0.0.1/trap','x')}}catch(e){{}}\
                 try{{const c=new RTCPeerConnection({{iceServers:[{{urls:'stun:127.0.0.1:'+udp}}]}});\
                 c.createDataChannel('x');c.createOffer().then(o=>c.setLocalDescription(o))}}\
                 catch(e){{}}\
                 Promise.allSettled(all.map(to=>fetch(to,{{mode:'no-cors'}})))\
                 .then(()=>fetch('/data?x=1')).then(it=>it.text())\
                 .then(text=>document.getElementById('a').textContent=text)"
            )),
            "get /moves" => page("location='http://10.0.0.1/trap'"),
            "get /moves-here" => page("location=`http://127.0.0.1:${tcp}/trap`"),
            "get /moves-tls" => page("location='https://10.0.0.1/trap'"),
            "get /moves-on" => page("location='/to-local'"),
            "get /file" => page("location='file:///etc/passwd'"),
            "get /rebinding" => page("location='http://rebinding.example/trap'"),
            "get /to-local" => redirect("http://127.0.0.1:8080/trap"),
            "get /to-file" => redirect("file:///etc/hostname"),
            "get /data" => {
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
                format!("{head}{}", format!("from a script {ports} ").repeat(20)).into_bytes()
            }
            _ => status(404),
        }
    };
    let web = ReadingWeb::with_memory(answer, with(program), 1 << 30).await;
    let packets = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    packets.set_nonblocking(true).unwrap();
    let own = packets.local_addr().unwrap().port();
    let ports = format!("{}-{own}", web.net.server.port());
    let page = web.read(&format!("/scripts?{ports}")).await;
    // The name has a public address first.
    assert!(web.net.resolve("rebinding.example").await.is_ok());
    for path in [
        "/moves",
        "/moves-here",
        "/moves-tls",
        "/moves-on",
        "/file",
        "/rebinding",
    ] {
        let read = web.read(&format!("{path}?{ports}")).await;
        assert_eq!(read.unwrap_err(), PageError::TooShort(4), "{path}");
    }
    assert_eq!(web.net.elsewhere(), []);
    assert!(packets.recv(&mut [0; 100]).is_err());
    let asked = web.server.requests();
    let lines: Vec<String> = asked.iter().map(super::line).collect();
    assert!(lines.iter().all(|line| !line.contains("trap")), "{lines:?}");
    for line in ["get /data?x=1", "get /to-local", "get /to-file"] {
        assert!(
            lines.iter().any(|it| it == line),
            "{line} is not in {lines:?}"
        );
    }
    let page = page.unwrap();
    assert_eq!(page.fetched_by, FetchStrategy::Chromium);
    assert!(
        page.markdown.contains("from a script x=1"),
        "{}",
        page.markdown
    );
}

/// A Chromium that nobody waits for any more ends, with each of its processes, and its profile
/// goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_browser_leaves_nothing() {
    let Some((program, folder)) = real_browser() else {
        return skip("there is no Chromium in /usr/bin");
    };
    let answer: Answer = |line, _| match line {
        "get /slow" => [html("", 10), b"<script src=never></script>".to_vec()].concat(),
        "get /never" => SILENT.into(),
        line => native(line),
    };
    let web = ReadingWeb::with_memory(answer, with(program), 1 << 30).await;
    let reader = Arc::clone(&web.reader);
    let read = tokio::spawn(async move { reader.read("http://example.com/slow").await });
    while web.asked("get /never") == 0 {
        assert!(!read.is_finished(), "the browser has not loaded the page");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let started = folder.path().join("started");
    let line = fs::read_to_string(&started).unwrap();
    let home = line.trim().split_once(' ').unwrap().1;
    let processes = || {
        let all = fs::read_dir("/proc").unwrap();
        let lines = all.filter_map(|it| fs::read(it.ok()?.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
        lines.filter(|line| line.contains(home)).count()
    };
    assert!(processes() > 1);
    assert!(Path::new(home).exists());
    read.abort();
    gone(&started).await;
    while processes() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(web.memory.used(), 0);
}
