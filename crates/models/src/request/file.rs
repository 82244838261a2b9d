//! Files of a message: their bytes inline, or a web address.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use inspan_wire::v1;

use super::{Refused, refused};

/// Where a file's content is.
pub(super) enum Source<'a> {
    /// Standard base64 of the bytes.
    Base64(String),
    /// A web address that the provider fetches.
    Url(&'a str),
}

/// A file that can be sent.
pub(super) struct File<'a> {
    pub(super) mime: &'a str,
    pub(super) name: &'a str,
    pub(super) source: Source<'a>,
}

impl File<'_> {
    pub(super) fn is_image(&self) -> bool {
        self.mime.starts_with("image/")
    }

    /// The content as a URL: the web address, or a data URL.
    pub(super) fn url(&self) -> String {
        match &self.source {
            Source::Url(url) => (*url).to_owned(),
            Source::Base64(data) => format!("data:{};base64,{data}", self.mime),
        }
    }
}

/// Reads a file part.
///
/// # Errors
/// No type, no content, or an address that no provider can fetch.
pub(super) fn read(part: &v1::FilePart) -> Result<File<'_>, Refused> {
    if part.mime.is_empty() {
        return refused(format_args!("file {:?} has no mime type", part.name));
    }
    let source = match &part.source {
        Some(v1::file_part::Source::Bytes(bytes)) if !bytes.is_empty() => Source::Base64(STANDARD.encode(bytes)),
        Some(v1::file_part::Source::Uri(uri)) if is_web(uri) => Source::Url(uri),
        Some(v1::file_part::Source::Uri(uri)) if !uri.is_empty() => {
            return refused(format_args!(
                "file {:?} is at {uri}, which the provider cannot fetch; give its bytes",
                part.name
            ));
        }
        _ => return refused(format_args!("file {:?} has neither bytes nor a uri", part.name)),
    };
    Ok(File { mime: &part.mime, name: &part.name, source })
}

fn is_web(uri: &str) -> bool {
    ["https://", "http://"].iter().any(|s| uri.get(..s.len()).is_some_and(|start| start.eq_ignore_ascii_case(s)))
}
