"""screen.py - a terminal that programs in tests write to: what it shows, and with which attributes. It understands what `pawl top`
uses and no more: everything else is a fault, kept in `unknown`."""
import re
import unicodedata

PIECE = re.compile(r"\033\[([?\d;]*)([@-~])|\033(.?)|([\0-\037\177-\237])|([^\033\0-\037\177-\237]+)", re.S)


def columns(character):
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Screen:
    def __init__(self, height, width):
        self.rest = b""
        self.unknown = []
        self.alternate = False
        self.cursor_shown = True
        self.overflowed = False  # a character came behind the last column, or a line below the last one
        self.attributes = ""
        self.resize(height, width)

    def resize(self, height, width):
        self.height, self.width = height, width
        self.row = self.column = 0
        self.clear()

    def clear(self):
        self.cells = [[(" ", "")] * self.width for _ in range(self.height)]

    def lines(self):
        return ["".join(text for text, _ in row).rstrip() for row in self.cells]

    def styled(self, row, text):
        """The attributes of the text in that row; None if it is not there."""
        line = "".join(cell or "\0" for cell, _ in self.cells[row])
        at = line.find(text)
        return None if at < 0 else {self.cells[row][at + i][1] for i in range(len(text))}

    def feed(self, data):
        data = self.rest + data
        cut = len(data)
        while cut and len(data) - cut < 3 and data[cut - 1] >= 0x80:  # a character may come in two pieces
            cut -= 1
            if data[cut] >= 0xc0:
                break
        escape = data.rfind(b"\033")
        if escape >= 0 and not re.match(rb"\033\[[?\d;]*[@-~]", data[escape:]):
            cut = min(cut, escape)
        try:
            data[cut:].decode()
            if escape < cut:
                cut = len(data)
        except UnicodeDecodeError:
            pass
        self.rest = data[cut:]
        for piece in PIECE.finditer(data[:cut].decode(errors="replace")):
            parameters, final, escaped, control, text = piece.groups()
            if final:
                self.command(parameters, final)
            elif control:
                self.control(control)
            elif text:
                for character in text:
                    self.put(character)
            else:
                self.unknown.append("ESC " + repr(escaped))

    def control(self, control):
        if control == "\r":
            self.column = 0
        elif control == "\n":
            if self.row == self.height - 1:
                self.overflowed = True
                self.cells = self.cells[1:] + [[(" ", "")] * self.width]
            else:
                self.row += 1
        else:
            self.unknown.append(repr(control))

    def command(self, parameters, final):
        if (parameters, final) == ("", "H"):
            self.row = self.column = 0
        elif (parameters, final) in (("", "K"), ("", "J")):
            end = [(" ", "")] * (self.width - min(self.column, self.width - 1))
            self.cells[self.row][self.width - len(end):] = end
            if final == "J":
                for row in range(self.row + 1, self.height):
                    self.cells[row] = [(" ", "")] * self.width
        elif final == "m":
            self.attributes = parameters if parameters != "0" else ""
        elif parameters == "?1049":
            self.alternate = final == "h"
            self.clear()
        elif parameters == "?25":
            self.cursor_shown = final == "h"
        else:
            self.unknown.append("CSI " + parameters + final)

    def put(self, character):
        wide = columns(character)
        if wide == 0:
            at = max(self.column - 1, 0)
            text, attributes = self.cells[self.row][at]
            self.cells[self.row][at] = (text + character, attributes)
            return
        if self.column + wide > self.width:
            self.overflowed = True
            return
        self.cells[self.row][self.column] = (character, self.attributes)
        if wide == 2:
            self.cells[self.row][self.column + 1] = ("", self.attributes)
        self.column += wide
