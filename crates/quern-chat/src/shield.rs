//! Keeping outside text from becoming control tokens.
//!
//! Every character has, for the time of one render, a **twin**: a private-use code point that occurs neither in the
//! template nor in the conversation. Where outside text spells a control token, the spelling is written in twins before
//! the template runs; wherever twins come out, they are turned back and that stretch of the text is `Plain`. Because a
//! twin stands for one character, lengths, slices and joins inside the template come out as they would have, and there
//! is no framing to forge: code points a user typed are never used as twins.
//!
//! A spelling can also be put together from pieces: one text part that ends in `<|im_` and a next that starts with
//! `end|>`, or a parameter named `s` that a template writes as `</s>`. So the borders of outside strings that could
//! begin or end a spelling, and strings that are wholly a piece of one, are written in twins too.
//!
//! Some templates look for spellings inside content: twins hide these. Hence the order of attempts in
//! [`Shielding`]; the text that comes out is compared with the text of an unshielded render, which is by definition what
//! the template means.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use quern_tokenizer::OwnedSegment;
use serde_json::{Map, Value};

use crate::ChatError;
use crate::spellings::Spellings;

/// How much of the outside text is hidden from the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shielding {
    /// Nothing: what the template means, and nothing more.
    None,
    /// Spellings, borders, and strings that are a piece of a spelling.
    Full,
    /// As `Full`, but short strings that are pieces stay visible: a template may compare them.
    Borders,
    /// As `Borders`, but a spelling at the very start or end of a string stays visible, with a tag on its inner side
    /// that says where it came from. Qwen3 tells tool results from questions by such a look.
    EdgesTagged,
}

/// The twins of one render.
#[derive(Debug)]
pub(crate) struct Twins {
    twin_of: HashMap<char, char>,
    original_of: HashMap<char, char>,
    /// The spelling that ends here came from outside.
    tag_after: char,
    /// The spelling that starts here came from outside.
    tag_before: char,
}

fn is_private_use(c: char) -> bool {
    matches!(c, '\u{F0000}'..='\u{FFFFD}' | '\u{100000}'..='\u{10FFFD}')
}

impl Twins {
    /// Twins for ASCII and for every character of the spellings, none of them a character of `in_use`.
    fn new<'a>(spellings: &'a Spellings, in_use: impl Iterator<Item = &'a str>) -> Result<Twins, ChatError> {
        let taken: HashSet<char> =
            in_use.chain(spellings.iter()).flat_map(str::chars).filter(|&c| is_private_use(c)).collect();
        let mut free = ('\u{F0000}'..='\u{FFFFD}').chain('\u{100000}'..='\u{10FFFD}');
        let mut next = || free.find(|c| !taken.contains(c)).ok_or(ChatError::NoPrivateCharacters);
        let (tag_after, tag_before) = (next()?, next()?);
        let mut twin_of = HashMap::new();
        // ASCII is complete because a shielded character may be written as a JSON escape later.
        for c in ('\0'..='\x7f').chain(spellings.iter().flat_map(str::chars)) {
            if let std::collections::hash_map::Entry::Vacant(slot) = twin_of.entry(c) {
                slot.insert(next()?);
            }
        }
        let original_of = twin_of.iter().map(|(&c, &twin)| (twin, c)).collect();
        Ok(Twins { twin_of, original_of, tag_after, tag_before })
    }

    /// The twin of a character; characters outside the alphabet are their own.
    pub(crate) fn twin(&self, c: char) -> char {
        self.twin_of.get(&c).copied().unwrap_or(c)
    }

    /// The character that `twin` stands for, if it is a twin.
    pub(crate) fn original(&self, twin: char) -> Option<char> {
        self.original_of.get(&twin).copied()
    }

    /// Whether `c` is one of the two tags, which stand for no character of the text.
    pub(crate) fn is_tag(&self, c: char) -> bool {
        c == self.tag_after || c == self.tag_before
    }

    /// `text` with twins turned back and tags dropped.
    pub(crate) fn restore(&self, text: &str) -> String {
        text.chars().filter(|&c| !self.is_tag(c)).map(|c| self.original(c).unwrap_or(c)).collect()
    }

    /// Splits what a template wrote into trusted and plain stretches.
    pub(crate) fn split(&self, spellings: &Spellings, rendered: &str) -> Vec<OwnedSegment> {
        let mut out = Stretches::default();
        let mut rest = rendered;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            if let Some(original) = self.original(c) {
                out.push(true, original);
            } else if c == self.tag_after {
                out.demote_tail(spellings);
            } else if c == self.tag_before {
                let n = spellings.longest_at_start(rest).unwrap_or(0);
                rest[..n].chars().for_each(|c| out.push(true, c));
                rest = &rest[n..];
            } else {
                out.push(false, c);
            }
        }
        out.segments
    }
}

#[derive(Default)]
struct Stretches {
    segments: Vec<OwnedSegment>,
}

impl Stretches {
    fn push(&mut self, plain: bool, c: char) {
        match (self.segments.last_mut(), plain) {
            (Some(OwnedSegment::Plain(text)), true) | (Some(OwnedSegment::Trusted(text)), false) => {
                text.push(c)
            }
            (_, true) => self.segments.push(OwnedSegment::Plain(c.to_string())),
            (_, false) => self.segments.push(OwnedSegment::Trusted(c.to_string())),
        }
    }

    /// The spelling that the trusted text ends with becomes plain.
    fn demote_tail(&mut self, spellings: &Spellings) {
        let Some(OwnedSegment::Trusted(text)) = self.segments.last_mut() else { return };
        let Some(n) = spellings.longest_at_end(text) else { return };
        let tail = text.split_off(text.len() - n);
        if text.is_empty() {
            self.segments.pop();
        }
        self.segments.push(OwnedSegment::Plain(tail));
    }
}

/// Roles that templates know by name; they are compared, not quoted.
const KNOWN_ROLES: [&str; 7] = ["system", "developer", "user", "assistant", "tool", "function", "ipython"];

/// What a template reads: messages, tools, and named values, all of it from outside.
#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    pub(crate) messages: Vec<Map<String, Value>>,
    pub(crate) tools: Value,
    pub(crate) kwargs: Map<String, Value>,
}

/// Rewrites inputs for one render.
pub(crate) struct Shield<'a> {
    pub(crate) spellings: &'a Spellings,
    /// Spellings the template looks for in content: the marks of the assistant's own text (reasoning, calls).
    pub(crate) marks: &'a Spellings,
    /// Words of the template's source: a string that is one of them may be compared with it.
    pub(crate) template_words: &'a HashSet<String>,
    twins: Twins,
}

impl<'a> Shield<'a> {
    pub(crate) fn new(
        spellings: &'a Spellings,
        marks: &'a Spellings,
        template_words: &'a HashSet<String>,
        source: &str,
        inputs: &Inputs,
    ) -> Result<Shield<'a>, ChatError> {
        let mut strings = vec![source];
        inputs.messages.iter().for_each(|m| collect_map(m, &mut strings));
        collect(&inputs.tools, &mut strings);
        collect_map(&inputs.kwargs, &mut strings);
        let twins = Twins::new(spellings, strings.into_iter())?;
        Ok(Shield { spellings, marks, template_words, twins })
    }

    pub(crate) fn into_twins(self) -> Twins {
        self.twins
    }

    /// The inputs as the template gets to see them, and whether anything differs from what came in.
    pub(crate) fn apply(&self, inputs: &Inputs, shielding: Shielding) -> (Inputs, bool) {
        let mut pass = Pass { shield: self, shielding, touched: false };
        let messages = inputs.messages.iter().map(|m| pass.message(m)).collect();
        let tools = pass.value(&inputs.tools);
        let kwargs = inputs.kwargs.iter().map(|(k, v)| (k.clone(), pass.value(v))).collect();
        (Inputs { messages, tools, kwargs }, pass.touched)
    }
}

fn collect<'v>(value: &'v Value, into: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => into.push(text),
        Value::Array(items) => items.iter().for_each(|v| collect(v, into)),
        Value::Object(map) => collect_map(map, into),
        _ => {}
    }
}

fn collect_map<'v>(map: &'v Map<String, Value>, into: &mut Vec<&'v str>) {
    for (key, value) in map {
        into.push(key);
        collect(value, into);
    }
}

struct Pass<'s, 'a> {
    shield: &'s Shield<'a>,
    shielding: Shielding,
    touched: bool,
}

impl Pass<'_, '_> {
    fn message(&mut self, message: &Map<String, Value>) -> Map<String, Value> {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let mut out = Map::new();
        for (key, value) in message {
            let value = match (key.as_str(), value) {
                ("role", Value::String(role)) if KNOWN_ROLES.contains(&role.as_str()) => value.clone(),
                ("content" | "reasoning_content" | "thinking", Value::String(text))
                    if role == "assistant" =>
                {
                    Value::String(self.own_text(text))
                }
                _ => self.value(value),
            };
            out.insert(key.clone(), value);
        }
        out
    }

    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|v| self.value(v)).collect(),
            Value::Object(map) => map.iter().map(|(k, v)| (self.text(k), self.value(v))).collect(),
            other => other.clone(),
        }
    }

    /// The assistant's own text: the marks its template reads stay as they are, what lies between them is outside text.
    fn own_text(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut from = 0;
        for mark in self.shield.marks.find_all(text) {
            if mark.start >= from {
                out.push_str(&self.text(&text[from..mark.start]));
                out.push_str(&text[mark.clone()]);
                from = mark.end;
            }
        }
        out.push_str(&self.text(&text[from..]));
        out
    }

    fn text(&mut self, text: &str) -> String {
        let hidden = self.hidden(text);
        let tags = self.tags(text);
        if hidden.is_empty() && tags == (None, None) {
            return text.to_string();
        }
        self.touched = true;
        let twins = &self.shield.twins;
        let mut out = String::with_capacity(text.len() * 2);
        let mut hidden = hidden.into_iter().peekable();
        for (at, c) in text.char_indices() {
            while hidden.next_if(|range| range.end <= at).is_some() {}
            if tags.1 == Some(at) {
                out.push(twins.tag_before);
            }
            let visible = tags.0.is_some_and(|end| at < end) || tags.1.is_some_and(|start| at >= start);
            let hide = hidden.peek().is_some_and(|range| range.contains(&at));
            out.push(if hide && !visible { twins.twin(c) } else { c });
            if tags.0 == Some(at + c.len_utf8()) {
                out.push(twins.tag_after);
            }
        }
        out
    }

    /// The stretches of `text` to write in twins, in order and without overlap. White space at a stretch's ends is
    /// left alone, since templates trim.
    fn hidden(&self, text: &str) -> Vec<Range<usize>> {
        let spellings = self.shield.spellings;
        if self.shielding == Shielding::None {
            return Vec::new();
        }
        let mut ranges = spellings.find_all(text);
        // Templates trim, so the borders of the trimmed text count as well.
        let lead = text.len() - text.trim_start().len();
        let trimmed = text.trim();
        let shift = |r: Range<usize>| r.start + lead..r.end + lead;
        ranges.extend(spellings.unstarted_begin(text));
        ranges.extend(spellings.unfinished_end(text));
        ranges.extend(spellings.unstarted_begin(trimmed).map(shift));
        ranges.extend(spellings.unfinished_end(trimmed).map(shift));
        if self.shielding == Shielding::Full && spellings.is_piece(trimmed) && !self.is_template_word(trimmed)
        {
            ranges.push(shift(0..trimmed.len()));
        }
        ranges.retain_mut(|r| {
            let piece = &text[r.clone()];
            let start = r.start + (piece.len() - piece.trim_start().len());
            *r = start..start + piece.trim().len();
            r.start < r.end
        });
        ranges.sort_by_key(|r| (r.start, r.end));
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        merged
    }

    fn is_template_word(&self, text: &str) -> bool {
        self.shield.template_words.contains(text)
    }

    /// Where a visible spelling at the start of the text ends, and where one at the end starts.
    fn tags(&self, text: &str) -> (Option<usize>, Option<usize>) {
        if self.shielding != Shielding::EdgesTagged {
            return (None, None);
        }
        let spellings = self.shield.spellings;
        let lead = text.len() - text.trim_start().len();
        let trimmed = text.trim();
        let first = spellings.longest_at_start(trimmed);
        let last = spellings.longest_at_end(trimmed).map(|n| trimmed.len() - n);
        // One spelling cannot be both, nor may the two overlap.
        let last = last.filter(|&start| first.is_none_or(|end| end <= start));
        (first.map(|n| n + lead), last.map(|n| n + lead))
    }
}
