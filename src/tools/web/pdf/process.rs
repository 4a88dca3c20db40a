//! The text of a PDF. Its parser may panic, loop or take all memory, so that it runs in a process
//! of its own: this program, started again, which reads the file from its input, and gives up what
//! it may take before that.

use std::io::{self, Read, Write};

use pdf_extract::{Document, Object, ObjectId, OutputError, PlainTextOutput, output_doc_page};
use rustix::process::{Resource, Rlimit, setrlimit};

/// The most pages that are read.
const MAX_PAGES: usize = 500;
/// The most bytes of text. More is no text that somebody has written.
pub const MAX_PDF_TEXT: usize = 8 << 20;
/// The most memory of the process, in bytes.
const MAX_MEMORY: u64 = 512 << 20;
/// The most time on a processor, in seconds.
const MAX_SECONDS: u64 = 10;

/// The first argument of the program in such a process.
pub const PDF_ARGUMENT: &str = "internal-pdf-text";

/// Reads a PDF from the input of this process, and writes its text to the output. The server learns
/// of an error only that there was one.
pub fn convert() -> io::Result<()> {
    for (resource, most) in [
        (Resource::As, MAX_MEMORY),
        (Resource::Cpu, MAX_SECONDS),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ] {
        let most = Some(most);
        let limit = Rlimit {
            current: most,
            maximum: most,
        };
        setrlimit(resource, limit)?;
    }
    let mut file = Vec::new();
    io::stdin().lock().read_to_end(&mut file)?;
    let text = text_of(&file).map_err(io::Error::other)?;
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

fn text_of(file: &[u8]) -> Result<String, OutputError> {
    // The empty password, with which many files are encrypted, is tried. If it is wrong there is no
    // catalog.
    let mut document = Document::load_mem(file)?;
    let mut pages: Vec<ObjectId> = document.page_iter().take(MAX_PAGES + 1).collect();
    let is_whole = pages.len() <= MAX_PAGES;
    pages.truncate(MAX_PAGES);
    // For each page the parser walks the tree, so that a large one takes its time.
    let tree = document.catalog()?.get(b"Pages")?.as_reference()?;
    let kids: Vec<Object> = pages.iter().copied().map(Object::Reference).collect();
    document
        .get_object_mut(tree)?
        .as_dict_mut()?
        .set("Kids", kids);
    let mut text = String::new();
    for page in (1..).take(pages.len()) {
        if text.len() > MAX_PDF_TEXT {
            break;
        }
        let mut written = String::new();
        let mut output = PlainTextOutput::new(&mut written);
        output_doc_page(&document, &mut output, page)?;
        text.push_str(written.trim());
        text.push_str("\n\n");
    }
    if !is_whole || text.len() > MAX_PDF_TEXT {
        text.push_str("[The rest of the pages was not read.]\n");
    }
    Ok(text)
}
