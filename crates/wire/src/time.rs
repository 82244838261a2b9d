//! Times as text: RFC 3339 in UTC.

use prost_types::Timestamp;

/// A time from milliseconds since the Unix epoch.
pub fn from_ms(ms: i64) -> Timestamp {
    from_ns(i128::from(ms) * 1_000_000)
}

/// A time from nanoseconds since the Unix epoch.
pub fn from_ns(ns: impl Into<i128>) -> Timestamp {
    let ns = ns.into();
    let seconds =
        i64::try_from(ns.div_euclid(1_000_000_000)).expect("less than 2^64 milliseconds are seconds of an i64");
    let nanos = i32::try_from(ns.rem_euclid(1_000_000_000)).expect("less than a second");
    Timestamp { seconds, nanos }
}

/// Nanoseconds since the Unix epoch; the nearest that an i64 holds (years 1677 to 2262).
pub fn to_ns(time: &Timestamp) -> i64 {
    let ns = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

/// A time as text. What lies outside years 1 to 9999 is shown as the nearest second inside.
pub fn text(time: &Timestamp) -> String {
    let mut out = Vec::with_capacity(30);
    if !write(time, &mut out) {
        let seconds = time.seconds.clamp(YEAR_1, YEAR_10000 - 1);
        assert!(write(&Timestamp { seconds, nanos: 0 }, &mut out), "a second inside the range has a text");
    }
    String::from_utf8(out).expect("digits and marks are ASCII")
}

const YEAR_1: i64 = -62_135_596_800;
const YEAR_10000: i64 = 253_402_300_800;

/// Appends a time with 0, 3, 6 or 9 digits of fraction, the fewest that are exact (R-HASH-4).
/// `false`, and nothing written, outside years 1 to 9999.
#[must_use]
pub fn write(time: &Timestamp, out: &mut Vec<u8>) -> bool {
    const DAY_S: i64 = 86_400;
    let Ok(nanos) = u32::try_from(time.nanos) else { return false };
    if nanos >= 1_000_000_000 || !(YEAR_1..YEAR_10000).contains(&time.seconds) {
        return false;
    }
    let (year, month, day) = date(time.seconds.div_euclid(DAY_S));
    let second = time.seconds.rem_euclid(DAY_S);
    digits(year, 4, out);
    for (mark, value) in
        [(b'-', month), (b'-', day), (b'T', second / 3600), (b':', second / 60 % 60), (b':', second % 60)]
    {
        out.push(mark);
        digits(value, 2, out);
    }
    if nanos != 0 {
        out.push(b'.');
        match (nanos % 1_000_000, nanos % 1_000) {
            (0, _) => digits(i64::from(nanos / 1_000_000), 3, out),
            (_, 0) => digits(i64::from(nanos / 1_000), 6, out),
            _ => digits(i64::from(nanos), 9, out),
        }
    }
    out.push(b'Z');
    true
}

/// `value` with leading zeros to `width`.
fn digits(value: i64, width: u32, out: &mut Vec<u8>) {
    for place in (0..width).rev() {
        let digit = value / 10_i64.pow(place) % 10;
        out.push(b'0' + u8::try_from(digit).expect("one decimal digit of a number that is not negative"));
    }
}

/// Year, month and day of a count of days since 1970-01-01. The year is taken to begin in March,
/// so that the leap day is its last; eras of 400 years are all alike.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (400 * era + year_of_era + i64::from(month <= 2), month, day)
}

/// Days since 1970-01-01 of a date; the inverse of [`date`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Reads a time, with up to 9 digits of fraction and `Z`. `None` for any other text.
pub fn parse(text: &str) -> Option<Timestamp> {
    let (date_and_time, rest) = text.split_at_checked(19)?;
    let bytes = date_and_time.as_bytes();
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| bytes[*at] != *mark) {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = &bytes[from..to];
        digits.iter().try_fold(0_i64, |n, b| b.is_ascii_digit().then(|| 10 * n + i64::from(b - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if year < 1 || !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let first = days(year, month, 1);
    let next = if month == 12 { days(year + 1, 1, 1) } else { days(year, month + 1, 1) };
    if !(1..=next - first).contains(&day) {
        return None;
    }
    let nanos = match rest.strip_suffix('Z')? {
        "" => 0,
        fraction => {
            let digits = fraction.strip_prefix('.')?;
            if !(1..=9).contains(&digits.len()) || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            format!("{digits:0<9}").parse().ok()?
        }
    };
    let seconds = (first + day - 1) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(Timestamp { seconds, nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_are_inverse_over_the_whole_range() {
        let mut last = (0, 12, 31);
        for day in days(1, 1, 1)..days(10_000, 1, 1) {
            let found = date(day);
            assert!(found > last, "dates rise");
            assert_eq!(days(found.0, found.1, found.2), day);
            last = found;
        }
        assert_eq!(last, (9999, 12, 31));
    }

    #[test]
    fn nanoseconds_go_both_ways() {
        for ns in [0, 1, -1, 1_700_000_000_678_901_200, i64::MIN, i64::MAX] {
            assert_eq!(to_ns(&from_ns(ns)), ns);
        }
        assert_eq!(text(&from_ms(1_700_000_000_005)), "2023-11-14T22:13:20.005Z");
        assert_eq!(text(&from_ms(-1)), "1969-12-31T23:59:59.999Z");
        assert_eq!(text(&from_ms(i64::MAX)), "9999-12-31T23:59:59Z");
        assert_eq!(text(&from_ms(i64::MIN)), "0001-01-01T00:00:00Z");
    }
}
