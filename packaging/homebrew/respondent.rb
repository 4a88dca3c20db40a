# Made by packaging/index.sh, for a tap: the archives are ready to use, so nothing is compiled.
class Respondent < Formula
  desc "Local server that lets Codex and OpenAI SDKs use models of other providers"
  homepage "@HOMEPAGE@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

@ARCHIVES@

  def install
    bin.install "bin/respondent"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/respondent"
    zsh_completion.install "share/zsh/vendor-completions/_respondent"
    fish_completion.install "share/fish/vendor_completions.d/respondent.fish"
    doc.install Dir["share/doc/respondent/*"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/respondent --version")
    assert_match "sandbox-1", shell_output("#{bin}/respondent models")
  end
end
