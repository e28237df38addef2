/* test_quote.c - what is quoted for a shell is read back by one as it was. */
#include <stdio.h>
#include <string.h>

#include "base/quote.h"
#include "tap.h"

static void read_back(const char *text, char *out, size_t size)
{
        char word[512], command[600];
        FILE *shell;
        size_t length;

        quote_for_shell(text, word, sizeof(word));
        snprintf(command, sizeof(command), "printf %%s %s", word);
        shell = popen(command, "r");
        REQUIRE(shell != NULL);
        length = fread(out, 1, size - 1, shell);
        out[length] = '\0';
        CHECK_INT(pclose(shell), 0);
}

TEST(a_shell_reads_back_what_was_quoted)
{
        static const char *const texts[] = {"plain/word.1", "",  "two words", "it's", "$HOME `id` \"x\"", "'",
                                            "a\\b",         "~", "*;&|<>"};
        char out[512];

        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
                read_back(texts[i], out, sizeof(out));
                CHECK_STR(out, texts[i]);
        }
}

TEST(a_plain_word_stays_plain)
{
        char word[64];

        quote_for_shell("/var/lib/pawl", word, sizeof(word));
        CHECK_STR(word, "/var/lib/pawl");
}

TEST(what_does_not_fit_is_cut_and_still_quoted)
{
        char word[16];

        memset(word, 'x', sizeof(word));
        quote_for_shell("a long text with 'quotes' and blanks", word, sizeof(word));
        CHECK(strlen(word) < sizeof(word));
        CHECK_INT(word[0], '\'');
        CHECK_INT(word[strlen(word) - 1], '\'');
}
