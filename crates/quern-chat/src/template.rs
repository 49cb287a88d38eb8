//! A compiled chat template and how it is rendered.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::ZonedDateTime;
use minijinja::value::{Serde, Value as JinjaValue};
use quern_gguf::Metadata;
use quern_tokenizer::OwnedSegment;
use serde_json::{Map, Value};

use crate::environment::{Program, compile, render};
use crate::message::Arguments;
use crate::shield::{Inputs, Shield, Shielding};
use crate::spellings::Spellings;
use crate::{ChatError, Message, fallback};

/// The largest template source accepted, in bytes; the largest known one is under 40 KB.
const MAX_SOURCE: usize = 1 << 20;

/// Where a template came from; a caller should say so when it is not the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateOrigin {
    /// The model file's own.
    File,
    /// One of ours, by name, for a file that carries none.
    Fallback(&'static str),
    /// Given by the caller.
    Caller,
}

/// The spellings a template may write as `bos_token` and `eos_token`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateTokens {
    /// Beginning of sequence, where the vocabulary has one.
    pub bos: Option<String>,
    /// End of sequence, where the vocabulary has one.
    pub eos: Option<String>,
}

/// What a render depends on besides the messages.
#[derive(Debug, Clone)]
pub struct RenderOptions {
    /// Whether to end with the opening of the assistant's turn.
    pub add_generation_prompt: bool,
    /// Tool definitions, as the API has them.
    pub tools: Option<Value>,
    /// Further variables, such as `enable_thinking`.
    pub kwargs: Map<String, Value>,
    /// What `strftime_now` reads. Fix it, and the same messages give the same prompt on any day.
    pub now: ZonedDateTime,
}

impl RenderOptions {
    /// Asks for the assistant's turn, without tools, at the given time.
    pub fn at(now: ZonedDateTime) -> RenderOptions {
        RenderOptions { add_generation_prompt: true, tools: None, kwargs: Map::new(), now }
    }
}

impl Default for RenderOptions {
    fn default() -> RenderOptions {
        RenderOptions::at(ZonedDateTime::now())
    }
}

/// A model's chat template, compiled once and rendered often.
#[derive(Debug)]
pub struct ChatTemplate {
    source: String,
    origin: TemplateOrigin,
    program: Program,
    tokens: TemplateTokens,
    spellings: Spellings,
    marks: Spellings,
    words: HashSet<String>,
}

impl ChatTemplate {
    /// The template of a model file, or a built-in one that fits its architecture and its vocabulary.
    ///
    /// `control_spellings` are the spellings of the vocabulary's control tokens: text from outside can never become one
    /// of them.
    pub fn from_metadata(
        metadata: &Metadata,
        tokens: &TemplateTokens,
        control_spellings: Vec<String>,
    ) -> Result<ChatTemplate, ChatError> {
        if let Some(source) = metadata.opt_str("tokenizer.chat_template")?.filter(|s| !s.trim().is_empty()) {
            return ChatTemplate::build(source, TemplateOrigin::File, tokens, control_spellings);
        }
        let architecture = metadata.opt_str("general.architecture")?.unwrap_or("unknown");
        ChatTemplate::fallback(architecture, tokens, control_spellings)
    }

    /// A template given as text.
    pub fn new(
        source: &str,
        tokens: &TemplateTokens,
        control_spellings: Vec<String>,
    ) -> Result<ChatTemplate, ChatError> {
        ChatTemplate::build(source, TemplateOrigin::Caller, tokens, control_spellings)
    }

    /// The built-in template for an architecture, if its control tokens are in the vocabulary.
    pub(crate) fn fallback(
        architecture: &str,
        tokens: &TemplateTokens,
        control_spellings: Vec<String>,
    ) -> Result<ChatTemplate, ChatError> {
        let control = Spellings::new(control_spellings.iter().cloned());
        let found = fallback::choose(architecture, &control)
            .map_err(|missing| ChatError::NoTemplate { architecture: architecture.into(), missing })?;
        ChatTemplate::build(found.source, TemplateOrigin::Fallback(found.name), tokens, control_spellings)
    }

    fn build(
        source: &str,
        origin: TemplateOrigin,
        tokens: &TemplateTokens,
        control_spellings: Vec<String>,
    ) -> Result<ChatTemplate, ChatError> {
        if source.len() > MAX_SOURCE {
            return Err(ChatError::TooLarge { bytes: source.len(), limit: MAX_SOURCE });
        }
        let spellings = Spellings::new(control_spellings);
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        Ok(ChatTemplate {
            origin,
            program: compile(source)?,
            tokens: tokens.clone(),
            marks: Spellings::new(tested_spellings(source, &spellings)),
            words: source.split(|c| !is_word(c)).map(String::from).collect(),
            spellings,
            source: source.to_string(),
        })
    }

    /// The Jinja source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Where the source came from.
    pub fn origin(&self) -> TemplateOrigin {
        self.origin
    }

    /// Renders a conversation. Joined, the segments are what Jinja writes; the plain ones hold every piece of outside
    /// text that spells a control token.
    pub fn render(
        &self,
        messages: &[Message],
        options: &RenderOptions,
    ) -> Result<Vec<OwnedSegment>, ChatError> {
        let as_mapping = self.render_inputs(&inputs(messages, options, Arguments::Mapping), options);
        let has_calls = messages.iter().any(|m| m.tool_calls.is_some());
        match as_mapping {
            Err(first @ (ChatError::Render(_) | ChatError::Refused(_))) if has_calls => {
                self.render_inputs(&inputs(messages, options, Arguments::Text), options).map_err(|_| first)
            }
            result => result,
        }
    }

    /// Whether a rendered prompt opens with the beginning-of-sequence token, so that a tokenizer must not add another.
    pub fn emits_bos(&self, rendered: &[OwnedSegment]) -> bool {
        match (&self.tokens.bos, rendered.first()) {
            (Some(bos), Some(OwnedSegment::Trusted(text))) => {
                !bos.is_empty() && text.starts_with(bos.as_str())
            }
            _ => false,
        }
    }

    fn render_inputs(
        &self,
        inputs: &Inputs,
        options: &RenderOptions,
    ) -> Result<Vec<OwnedSegment>, ChatError> {
        let meant = || render(&self.program, self.context(inputs, options), &options.now, None);
        let shield = Shield::new(&self.spellings, &self.marks, &self.words, &self.source, inputs)?;
        let attempts = [Shielding::Full, Shielding::Borders, Shielding::EdgesTagged];
        let shielded = attempts.map(|shielding| shield.apply(inputs, shielding));
        if !shielded[0].1 {
            let text = meant()?;
            return Ok(if text.is_empty() { Vec::new() } else { vec![OwnedSegment::Trusted(text)] });
        }
        let meant = meant()?;
        let twins = Arc::new(shield.into_twins());
        let mut borders = None;
        for (shielding, (inputs, _)) in attempts.iter().zip(&shielded) {
            let text =
                render(&self.program, self.context(inputs, options), &options.now, Some(twins.clone()));
            if text.as_ref().is_ok_and(|text| twins.restore(text) == meant) {
                return Ok(twins.split(&self.spellings, &text?));
            }
            if *shielding == Shielding::Borders {
                borders = Some(text);
            }
        }
        // The template acts on a spelling in a way that cannot be followed. Safety first: it does not get to see it.
        match borders {
            Some(text) => Ok(twins.split(&self.spellings, &text?)),
            None => Err(ChatError::Render("no shielded form of the conversation renders".into())),
        }
    }

    fn context<'a>(&self, inputs: &'a Inputs, options: &RenderOptions) -> BTreeMap<&'a str, JinjaValue> {
        let fixed = [
            ("messages", JinjaValue::from(Serde(&inputs.messages))),
            ("tools", JinjaValue::from(Serde(&inputs.tools))),
            ("documents", JinjaValue::from(())),
            ("add_generation_prompt", JinjaValue::from(options.add_generation_prompt)),
        ];
        let tokens = [("bos_token", &self.tokens.bos), ("eos_token", &self.tokens.eos)];
        let tokens = tokens.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?.into())));
        let kwargs =
            inputs.kwargs.iter().map(|(name, value)| (name.as_str(), JinjaValue::from(Serde(value))));
        // Further variables may replace the token spellings, as in transformers, but not the conversation.
        tokens.chain(kwargs).chain(fixed).collect()
    }
}

fn inputs(messages: &[Message], options: &RenderOptions, arguments: Arguments) -> Inputs {
    Inputs {
        messages: messages.iter().map(|m| m.to_json(arguments)).collect(),
        tools: options.tools.clone().unwrap_or(Value::Null),
        kwargs: options.kwargs.clone(),
    }
}

/// The spellings a template looks for in content: a quoted spelling before `in` or `not in`, or as the first argument of
/// one of the methods below. They are the marks of the assistant's own text (reasoning, calls) and stay as they are there.
fn tested_spellings(source: &str, spellings: &Spellings) -> Vec<String> {
    const METHODS: [&str; 7] = ["split", "rsplit", "startswith", "endswith", "find", "partition", "replace"];
    let is_tested = |range: &std::ops::Range<usize>| {
        let (before, after) = (&source[..range.start], &source[range.end..]);
        let quoted =
            ['\'', '"'].into_iter().find_map(|q| Some((before.strip_suffix(q)?, after.strip_prefix(q)?)));
        let Some((before, after)) = quoted else { return false };
        let after = after.trim_start();
        let in_test = after.starts_with("in ") || after.starts_with("not in ");
        let call = before.trim_end().strip_suffix('(').is_some_and(|head| {
            METHODS.iter().any(|m| head.strip_suffix(m).is_some_and(|rest| rest.ends_with(['.', '|', ' '])))
        });
        in_test || call
    };
    let found = spellings.find_all(source);
    found.into_iter().filter(is_tested).map(|range| source[range].to_string()).collect()
}
