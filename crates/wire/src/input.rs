//! The input hash of a model request (R-IN).
use crate::canon::Error;
use crate::v1;

/// The exact JSON text whose SHA-256 is the recorded `input_hash` (R-IN-1 to R-IN-9).
///
/// # Errors
/// A `Struct` number that is NaN or infinite.
pub fn text(request: &v1::ModelCall) -> Result<String, Error> {
    let v = crate::json::to_value(request).map_err(|_| Error::NonFinite)?;
    Ok(v.to_string())
}
