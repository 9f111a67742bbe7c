//! Reading and writing attributes. What is missing or of another type is corrupt, never a default.

use std::{collections::HashMap, fmt::Display, str::FromStr};

use aws_sdk_dynamodb::types::AttributeValue;
use dormouse_engine::ports::StoreError;

use crate::keys::{PK, SK};

/// An item as the SDK has it.
pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(crate) fn n(number: impl Display) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(crate) fn key(pk: impl Into<String>, sk: impl Into<String>) -> Item {
    Item::from([(PK.to_owned(), s(pk)), (SK.to_owned(), s(sk))])
}

/// The key of `item`.
pub(crate) fn key_of(item: &Item) -> Item {
    item.iter().filter(|(name, _)| [PK, SK].contains(&name.as_str())).map(|(k, v)| (k.clone(), v.clone())).collect()
}

pub(crate) fn corrupt(item: &Item, what: impl Display) -> StoreError {
    let name = |attribute| item.get(attribute).and_then(|value| value.as_s().ok()).map_or("?", String::as_str);
    StoreError::Corrupt(format!("item {} {}: {what}", name(PK), name(SK)))
}

pub(crate) fn optional_text<'a>(item: &'a Item, name: &str) -> Result<Option<&'a str>, StoreError> {
    let Some(value) = item.get(name) else { return Ok(None) };
    value.as_s().map(|text| Some(text.as_str())).map_err(|_| corrupt(item, format_args!("{name} is not a string")))
}

pub(crate) fn text<'a>(item: &'a Item, name: &str) -> Result<&'a str, StoreError> {
    optional_text(item, name)?.ok_or_else(|| corrupt(item, format_args!("{name} is missing")))
}

pub(crate) fn optional_number<T: FromStr>(item: &Item, name: &str) -> Result<Option<T>, StoreError> {
    let Some(value) = item.get(name) else { return Ok(None) };
    let number = value.as_n().ok().and_then(|digits| digits.parse().ok());
    number.map(Some).ok_or_else(|| corrupt(item, format_args!("{name} is not a number in range")))
}

pub(crate) fn number<T: FromStr>(item: &Item, name: &str) -> Result<T, StoreError> {
    optional_number(item, name)?.ok_or_else(|| corrupt(item, format_args!("{name} is missing")))
}

/// At least the size that DynamoDB counts for `item`: names and values in bytes, a number with up
/// to a byte a digit.
pub(crate) fn size(item: &Item) -> usize {
    let value_size = |value: &AttributeValue| {
        let text = value.as_s().map(String::len).or_else(|_| value.as_n().map(|digits| digits.len() + 1));
        text.or_else(|_| value.as_b().map(|blob| blob.as_ref().len())).unwrap_or(0)
    };
    item.iter().map(|(name, value)| name.len() + value_size(value)).sum()
}
