//! PDF files are pages, read by the program in a process of its own, whatever is in them.
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use kit::player::PlayerWire;
use kit::web::{WebAnswer, WebServer};
use respondent::artifacts::Artifacts;
use respondent::artifacts::owner::OwnerArtifacts;
use respondent::store::{ArtifactFilter, ArtifactRange};
use respondent::tools::web::page::{Page, PageError, PageReader};
use respondent::tools::web::reader::ReaderSettings;
use serde_json::json;

use crate::faults::{answer, player};
use crate::proxy::PROGRAM;
use crate::rounds::server::{RoundClient, RoundServer};
use crate::web_search::web::{TestWeb, call, question, reader, request};

/// Reads a file by this program, at an address with this name.
async fn read(program: &Path, name: &str, file: &str) -> Result<Arc<Page>, PageError> {
    let answered = file.to_owned();
    let server = WebServer::start(move |_| WebAnswer::new(200, "application/pdf", &answered));
    let server = server.await.unwrap();
    let settings = ReaderSettings {
        pdf_program: Some(program.to_owned()),
        ..ReaderSettings::default()
    };
    reader(server.address(), settings)
        .read(&format!("http://example.com/{name}"))
        .await
}

/// A PDF of these objects, of which the first is the catalog.
fn pdf(objects: &[String]) -> String {
    let mut file = "%PDF-1.4\n".to_owned();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (at, object) in objects.iter().enumerate() {
        let _ = writeln!(table, "{:010} 00000 n ", file.len());
        let _ = write!(file, "{} 0 obj\n{object}\nendobj\n", at + 1);
    }
    let begin = file.len();
    let size = objects.len() + 1;
    file + &table + &format!("trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{begin}\n%%EOF\n")
}

fn stream(entries: &str, content: &str) -> String {
    format!(
        "<<{entries}/Length {}>>\nstream\n{content}\nendstream",
        content.len()
    )
}

/// A page with this content, resources, and further objects from the sixth on.
fn page(contents: &str, resources: &str, content: String, further: &[String]) -> String {
    let mut objects = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents {contents}\
             /Resources<</Font<</F 5 0 R>>{resources}>>>>"
        ),
        content,
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned(),
    ];
    objects.extend_from_slice(further);
    pdf(&objects)
}

/// Spaces of this many MiB, as short as a file can have them: coded twice.
fn spaces(mebibytes: usize) -> String {
    let mut coded = ZlibEncoder::new(Vec::new(), Compression::best());
    let piece = vec![b' '; 1 << 20];
    for _ in 0..mebibytes {
        coded.write_all(&piece).unwrap();
    }
    let mut twice = ZlibEncoder::new(Vec::new(), Compression::best());
    twice.write_all(&coded.finish().unwrap()).unwrap();
    ascii85(&twice.finish().unwrap())
}

/// The filter `ASCII85Decode`: the server of these tests sends text.
fn ascii85(bytes: &[u8]) -> String {
    let mut text = String::new();
    for piece in bytes.chunks(4) {
        let mut word = [0; 4];
        word[..piece.len()].copy_from_slice(piece);
        let word = u32::from_be_bytes(word);
        if word == 0 && piece.len() == 4 {
            text.push('z');
            continue;
        }
        let digits = (0..5).map(|at| word / 85_u32.pow(4 - at) % 85);
        text.extend(
            digits
                .take(piece.len() + 1)
                .map(|digit| char::from(b'!' + u8::try_from(digit).unwrap())),
        );
    }
    text + "~>"
}

/// A PDF whose fifth object is in a compressed one, the fourth.
fn compressed_objects(content: &str) -> String {
    let mut file = "%PDF-1.5\n".to_owned();
    let mut table = vec![(0, 0_usize)];
    for object in [
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 5 0 R>>".to_owned(),
        stream(&format!("/Type/ObjStm/N 1/First 4{TWICE_CODED}"), content),
    ] {
        table.push((1, file.len()));
        let _ = write!(file, "{} 0 obj\n{object}\nendobj\n", table.len() - 1);
    }
    table.push((2, 4));
    let begin = file.len();
    table.push((1, begin));
    let entry = |(kind, at): &(u8, usize)| {
        let at = u32::try_from(*at).unwrap().to_be_bytes();
        [&[*kind][..], &at, &[0]].concat()
    };
    let entries: Vec<u8> = table.iter().flat_map(entry).collect();
    let table = stream(
        "/Type/XRef/W[1 4 1]/Size 7/Root 1 0 R/Filter/ASCII85Decode",
        &ascii85(&entries),
    );
    file + &format!("6 0 obj\n{table}\nendobj\nstartxref\n{begin}\n%%EOF\n")
}

const TWICE_CODED: &str = "/Filter[/ASCII85Decode/FlateDecode/FlateDecode]";

/// Lines of text as the content of a page.
fn lines(lines: &[&str]) -> String {
    let mut content = "BT /F 12 Tf 72 720 Td".to_owned();
    for line in lines {
        let _ = write!(content, " ({line}) Tj 0 -14 Td");
    }
    content + " ET"
}

const TEXT: [&str; 3] = [
    "A licence may be given to anybody who asks the owner of the work,",
    "and ends when it is taken back.",
    "Nothing else is said of it in this paper, or in any other one.",
];

/// Promise: The text of a PDF is read where the operator wants it, line by line, and has the name
/// of its file as the title. Of a long one the first 500 pages are read, which its text says; one
/// without text is a failure.
#[kit::test]
async fn the_text_of_a_pdf_is_read() {
    let file = page("4 0 R", "", stream("", &lines(&TEXT)), &[]);
    let read_page = read(Path::new(PROGRAM), "a%20paper.pdf", &file)
        .await
        .unwrap();
    assert_eq!(read_page.title, "a paper.pdf");
    assert_eq!(read_page.received_bytes, file.len());
    for line in TEXT {
        let has_line = read_page.markdown.lines().any(|it| it.trim() == line);
        assert!(has_line, "{line} is no line of\n{}", read_page.markdown);
    }
    let pictures = page("4 0 R", "", stream("", "0 0 1 rg 0 0 612 792 re f"), &[]);
    let failed = read(Path::new(PROGRAM), "a.pdf", &pictures).await;
    assert_eq!(failed.unwrap_err(), PageError::NoText);
    let mut objects = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        String::new(),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned(),
        stream("", &lines(&["a page"])),
    ];
    let pages = 5..605;
    let kids: Vec<String> = pages.clone().map(|page| format!("{page} 0 R")).collect();
    let kids = kids.join(" ");
    objects[1] = format!("<</Type/Pages/Kids[{kids}]/Count 600>>");
    let page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R\
                /Resources<</Font<</F 3 0 R>>>>>>";
    objects.extend(pages.map(|_| page.to_owned()));
    let long = read(Path::new(PROGRAM), "long.pdf", &pdf(&objects))
        .await
        .unwrap();
    assert_eq!(long.markdown.matches("a page").count(), 500);
    assert!(
        long.markdown
            .ends_with("[The rest of the pages was not read.]\n")
    );
}

/// Promise: No PDF takes more than its time and memory, and one that breaks its parser is a failure
/// of that page.
#[kit::test]
async fn a_hostile_pdf_is_a_failure_of_its_page() {
    let bomb = spaces(600);
    let objects = compressed_objects(&bomb);
    let bomb = page("4 0 R", "", stream(TWICE_CODED, &bomb), &[]);
    // Each form draws the next one ten times.
    let forms: Vec<String> = (6..16)
        .map(|object| {
            let next = format!("/X {} 0 R", object + 1);
            let entries =
                format!("/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<<{next}>>>>");
            stream(&entries, &"/X Do ".repeat(10))
        })
        .collect();
    let drawn = page("4 0 R", "/XObject<</X 6 0 R>>", stream("", "/X Do"), &forms);
    let itself = stream(
        "/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 6 0 R>>>>",
        "/X Do",
    );
    let circle = page(
        "4 0 R",
        "/XObject<</X 6 0 R>>",
        stream("", "/X Do"),
        &[itself],
    );
    let tree = pdf(&[
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        format!(
            "<</Type/Pages/Parent 2 0 R/Kids[{}]/Count 9>>",
            "2 0 R ".repeat(1_000)
        ),
    ]);
    let nested = page("4 0 R", &"/A[".repeat(200_000), stream("", "f"), &[]);
    let good = page("4 0 R", "", stream("", &lines(&TEXT)), &[]);
    let password = format!(
        "/Encrypt<</Filter/Standard/V 2/R 3/Length 128/P -4/O<{0}>/U<{0}>>>/ID[<00><00>]",
        "41".repeat(32)
    );
    let locked = good.replace("/Root 1 0 R", &format!("/Root 1 0 R{password}"));
    let cut = &good[..good.len() / 2];
    let offsets = good
        .replace("0000000", "9999999")
        .replace("startxref\n", "startxref\n99");
    let program = Path::new(PROGRAM);
    for (name, file) in [
        ("empty", ""),
        ("nothing", "%PDF-1.4\n"),
        ("bomb", &bomb),
        ("objects", &objects),
        ("drawn", &drawn),
        ("circle", &circle),
        ("tree", &tree),
        ("nested", &nested),
        ("cut", cut),
        ("offsets", &offsets),
    ] {
        let failed = read(program, name, file).await;
        let code = failed.as_ref().map_err(|error| error.code().name());
        assert!(
            matches!(code, Err("HOSTILE" | "NON_HTML")),
            "{name}: {failed:?}"
        );
    }
    let failed = read(program, "locked", &locked).await.unwrap_err();
    assert!(failed.to_string().contains("needs a password"), "{failed}");
    assert!(read(program, "good", &good).await.is_ok());
}

/// Promise: The process that reads a PDF has at most 512 MiB of memory and 10 seconds of a
/// processor before it has read a byte of the file, and writes no file.
#[cfg(target_os = "linux")]
#[kit::test]
async fn the_process_of_a_pdf_is_limited() {
    let mut command = tokio::process::Command::new(PROGRAM);
    command.arg("internal-pdf-text").kill_on_drop(true);
    command.stdin(std::process::Stdio::piped());
    let process = command.spawn().unwrap();
    let path = format!("/proc/{}/limits", process.id().unwrap());
    let is_limited = || {
        let limits = fs::read_to_string(&path).unwrap();
        let mut lines = limits
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let wanted = [
            ["Max", "address", "space", "536870912", "536870912"],
            ["Max", "cpu", "time", "10", "10"],
            ["Max", "core", "file", "size", "0"],
            ["Max", "file", "size", "0", "0"],
        ];
        let found = lines
            .by_ref()
            .filter(|line| wanted.iter().any(|it| line.starts_with(it)));
        found.count() == wanted.len()
    };
    while !is_limited() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// The process gets the file and nothing else.
#[kit::test]
async fn the_process_of_a_pdf_has_no_variables() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let known = "PATH|PWD|OLDPWD|SHLVL|_";
    let script = format!("cat; echo; echo \"$*\"; env | grep -vE '^({known})='; printf '%0100d' 0");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let page = read(&program, "a.pdf", "the file").await.unwrap();
    let expected = format!("the file\ninternal-pdf-text\n{}", "0".repeat(100));
    assert_eq!(page.markdown, expected);
}

/// Promise: The text of a PDF that a turn has opened is an artifact, whole, and the recording of
/// the turn replays where neither the file nor a program that reads it is at hand.
#[kit::test]
async fn a_pdf_of_a_turn_is_an_artifact_and_replays_offline() {
    let file = page("4 0 R", "", stream("", &lines(&TEXT)), &[]);
    let server = WebServer::start(move |_| WebAnswer::new(200, "application/pdf", &file));
    let server = server.await.unwrap();
    let settings = ReaderSettings {
        pdf_program: Some(Path::new(PROGRAM).to_owned()),
        ..ReaderSettings::default()
    };
    let reader = Arc::new(reader(server.address(), settings));
    let player = player(PlayerWire::Chat).await;
    let url = json!({"url": "http://example.com/licence.pdf"});
    player.push(answer(json!([call("c1", "open_page", &url)])));
    player.push(answer(json!([{"text": "It ends."}])));
    let artifacts = Artifacts::memory(4 << 20);
    let tool = TestWeb::new().tool_reading(reader, artifacts.clone());
    let rounds = RoundServer::with_tools(&[&player], tool, "");
    let client = RoundClient::Streaming;
    let response = rounds.answer(&request(&question()), client).await;
    assert_eq!(response["output"][0]["status"], "completed", "{response}");
    let kept = OwnerArtifacts::local(artifacts, 1);
    let listed = kept.list(&ArtifactFilter::default()).await.unwrap();
    assert_eq!(listed.len(), 1);
    let whole = kept.read(&listed[0].id, &ArtifactRange::Whole).await;
    let whole = whole.unwrap();
    let told = player.requests()[1].body.clone();
    for line in TEXT {
        assert!(whole.text.contains(line), "{}", *whole.text);
        assert!(told.contains(line), "{told}");
    }
    assert_eq!(server.requests().len(), 1);
    drop((server, player));
    rounds.check_replay();
}
