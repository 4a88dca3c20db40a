//! The text that `respondent check` prints: the settings, providers and models that a server
//! with this configuration would have. It never contains a key.

use std::fmt::Write;

use adapters::plan::OutputPolicy;
use registry::Provider;

use super::{ArtifactMode, CaptureMode, ClientLimits, Config};

/// The report: the server's settings, then a few lines for each provider.
pub fn report(config: &Config) -> String {
    let mut text = String::new();
    write(config, &mut text).ok();
    text
}

/// The line that says that the configuration was found in the working directory; `None` if it
/// was not. It is the first that `serve` and `check` print.
pub fn found_file_notice(config: &Config) -> Option<String> {
    let file = config
        .paths
        .file
        .as_ref()
        .filter(|_| config.paths.is_found)?;
    Some(format!(
        "Using {}, which was found in the working directory. Only serve and check read it; name it with --config for the other commands.\n",
        file.display()
    ))
}

/// The limits of a client, such as `: at most 4 requests at once, 100 tokens a day`.
fn limits(limits: ClientLimits) -> String {
    let requests = limits.concurrent_requests;
    let limits = [
        requests.map(|most| format!("{most} requests at once")),
        limits
            .tokens_per_day
            .map(|most| format!("{most} tokens a day")),
        limits.cost_per_day.map(|most| format!("${most} a day")),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    if limits.is_empty() {
        String::new()
    } else {
        format!(": at most {}", limits.join(", "))
    }
}

fn write(config: &Config, out: &mut String) -> std::fmt::Result {
    out.push_str(&found_file_notice(config).unwrap_or_default());
    let server = &config.server;
    writeln!(out, "listen     http://{}", server.listen)?;
    writeln!(
        out,
        "token      {}",
        if server.token.is_some() || !config.clients.is_empty() {
            "required"
        } else {
            "none"
        }
    )?;
    for (name, client) in config.clients.iter() {
        writeln!(out, "client     {name}{}", limits(client.limits))?;
    }
    writeln!(out, "data       {}", server.data_dir.display())?;
    let folder = server.bundles_dir();
    let capture = match config.capture.mode {
        CaptureMode::Off => "turns are not kept".to_owned(),
        CaptureMode::Failures => format!("turns that fail are kept in {}", folder.display()),
        CaptureMode::All => format!("all turns are kept in {}", folder.display()),
    };
    writeln!(out, "capture    {}: {capture}", config.capture.mode.name())?;
    let outputs = match config.context.outputs {
        OutputPolicy::Adaptive => {
            "adaptive: long tool outputs are shortened to suit the model's window"
        }
        OutputPolicy::Fixed => "fixed: tool outputs of more than 4,000 characters are shortened",
        OutputPolicy::Whole => "whole: tool outputs are sent as they are",
    };
    writeln!(out, "outputs    {outputs}")?;
    let artifacts = match config.artifacts.mode {
        ArtifactMode::Off => "off: what is shortened is not kept".to_owned(),
        ArtifactMode::Memory => {
            "memory: what is shortened is kept until the server stops".to_owned()
        }
        ArtifactMode::Disk => {
            let folder = server.data_dir.join("artifacts");
            format!("disk: what is shortened is kept in {}", folder.display())
        }
    };
    writeln!(out, "artifacts  {artifacts}")?;
    writeln!(
        out,
        "memory     {} MiB at most",
        config.memory_limit() >> 20
    )?;
    if config.source_files.is_empty() {
        writeln!(out, "files      none")?;
    }
    for source in &config.source_files {
        writeln!(out, "file       {}", source.display())?;
    }
    for provider in &config.registry.providers {
        writeln!(out, "\nprovider   {} ({})", provider.id, provider.name)?;
        write_provider(config, provider, out)?;
    }
    if !config.webhooks.is_empty() {
        writeln!(out)?;
    }
    for webhook in &config.webhooks {
        let events = match &webhook.events {
            None => "all events".to_owned(),
            Some(events) => {
                let names: Vec<&str> = events.iter().map(|event| event.name()).collect();
                names.join(", ")
            }
        };
        writeln!(
            out,
            "webhook    {} -> {}: {events}",
            webhook.name,
            webhook.host()
        )?;
    }
    let registry = &config.registry;
    if !(registry.aliases.is_empty() && registry.fallbacks.is_empty())
        || registry.default_model.is_some()
    {
        writeln!(out)?;
    }
    for (alias, target) in &registry.aliases {
        writeln!(out, "alias      {alias} = {target}")?;
    }
    for (of, others) in &registry.fallbacks {
        let of = match of.as_str() {
            registry::EVERY_MODEL => "any model",
            name => name,
        };
        writeln!(out, "fallback   {of} -> {}", others.join(", "))?;
    }
    if let Some(model) = &registry.default_model {
        writeln!(
            out,
            "default    {model} (for names of Codex's own models that no provider has)"
        )?;
    }
    if !config.warnings.is_empty() {
        writeln!(out)?;
    }
    for warning in &config.warnings {
        writeln!(out, "warning    {warning}")?;
    }
    writeln!(out, "\nThe configuration is valid. No provider was asked.")
}

fn write_provider(config: &Config, provider: &Provider, out: &mut String) -> std::fmt::Result {
    let address = match provider.base_url.as_str() {
        "" => "inside this program, on a free port",
        url => url,
    };
    writeln!(out, "  address  {address}")?;
    let count = config.keys.get(&provider.id).map_or(0, Vec::len);
    match config.key_origins.get(&provider.id) {
        Some(origin) if count > 1 => writeln!(out, "  keys     {count} from {origin}")?,
        Some(origin) => writeln!(out, "  key      {origin}")?,
        None => writeln!(out, "  key      none")?,
    }
    if !provider.key_weights.is_empty() {
        let weights: Vec<String> = provider.key_weights.iter().map(u32::to_string).collect();
        writeln!(out, "  weights  {}", weights.join(", "))?;
    }
    if let Some(limit) = provider.max_concurrent {
        writeln!(out, "  limit    {limit} at once")?;
    }
    for model in &provider.models {
        let name = config.registry.public_name(provider, model);
        writeln!(out, "  model    {name} ({} tokens)", model.window().tokens)?;
    }
    if provider.passthrough {
        writeln!(
            out,
            "  model    {} (any other name)",
            provider.prefixed_name("...")
        )?;
    }
    Ok(())
}
