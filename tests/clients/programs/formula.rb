# Stands in for Homebrew: formula.rb FORMULA [PREFIX]. Prints the archive of each platform, and with a prefix installs
# from the working directory, which is the unpacked archive, and runs the test of the formula.
require "fileutils"
require "pathname"

# A folder into which a formula installs.
class Folder < Pathname
  def install(*files)
    FileUtils.mkdir_p(self)
    FileUtils.cp_r(files.flatten, self)
  end
end

class Formula
  SHARE = { man1: "man/man1", doc: "doc/respondent", bash_completion: "bash-completion/completions",
            zsh_completion: "zsh/site-functions", fish_completion: "fish/vendor_completions.d" }.freeze

  class << self
    attr_reader :archives, :tested

    def inherited(formula)
      super
      Formula.const_set(:Loaded, formula)
      formula.instance_eval { @archives, @at = [], [] }
    end

    %w[desc homepage license].each { |name| define_method(name) { |_| nil } }

    def version(number = nil)
      @version = number || @version
    end

    def url(address)
      @url = address
    end

    def sha256(digest)
      @archives << [*@at, @url, digest].join(" ")
    end

    def test(&block)
      @tested = block
    end

    %w[macos linux arm intel].each do |name|
      define_method("on_#{name}") do |&block|
        @at.push(name)
        block.call
        @at.pop
      end
    end
  end

  def initialize(prefix)
    @prefix = Pathname(prefix)
  end

  def bin
    Folder.new(@prefix / "bin")
  end

  SHARE.each { |name, path| define_method(name) { Folder.new(@prefix / "share" / path) } }

  def version
    self.class.version
  end

  def shell_output(command)
    output = `#{command}`
    $?.success? ? output : abort("#{command} ended with #{$?.exitstatus}")
  end

  def assert_match(expected, actual)
    actual.include?(expected) || abort("#{expected} is not in #{actual}")
  end
end

load ARGV[0]
puts Formula::Loaded.archives
if ARGV[1]
  formula = Formula::Loaded.new(ARGV[1])
  formula.install
  formula.instance_eval(&Formula::Loaded.tested)
end
