"""Phrases for miniworld's tools, which the synthesizer and the task families share."""

from coevolve.environments.environment import Phrasebook

PHRASES = Phrasebook(
    actions={
        "add_contact": [
            "add {name} of {city} to the contacts",
            "save {name} from {city}",
            "note a contact {name} in {city}",
        ],
        "delete_contact": [
            "delete the contact {contact_id}",
            "erase {contact_id} from the contacts",
            "remove {contact_id}",
        ],
        "block_contact": ["block {contact_id}", "block the contact {contact_id}", "stop {contact_id} from writing"],
        "add_event": ["add {title} on {day}", "plan {title} for {day}", "put {title} into the calendar on {day}"],
        "move_event": ["move {event_id} to {day}", "shift {event_id} to {day}", "reschedule {event_id} for {day}"],
        "cancel_event": ["cancel {event_id}", "call off {event_id}", "cancel {event_id} for all"],
        "decline_event": ["decline {event_id}", "say no to {event_id}", "turn down {event_id}"],
        "accept_event": ["accept {event_id}", "say yes to {event_id}", "confirm {event_id}"],
        "send_mail": [
            "write {contact_id} about {subject}",
            "send {contact_id} a mail about {subject}",
            "mail {contact_id} on {subject}",
        ],
        "archive_mail": ["archive {mail_id}", "file {mail_id} away", "put {mail_id} into the archive"],
        "delete_mail": ["delete {mail_id}", "throw {mail_id} away", "put {mail_id} into the bin"],
        "report_mail": ["report {mail_id}", "mark {mail_id} as spam", "report {mail_id} as spam"],
        "forward_mail": [
            "forward {mail_id} to {contact_id}",
            "pass {mail_id} on to {contact_id}",
            "send {mail_id} on to {contact_id}",
        ],
        "trash_file": ["trash {file_id}", "put {file_id} into the trash", "get rid of {file_id}"],
        "copy_file": ["copy {file_id}", "make a copy of {file_id}", "duplicate {file_id}"],
        "restore_file": ["restore {file_id}", "take {file_id} out of the trash", "bring {file_id} back"],
        "share_file": [
            "share {file_id} with {contact_id}",
            "give {contact_id} access to {file_id}",
            "let {contact_id} see {file_id}",
        ],
        "add_to_cart": ["put {item_id} into the cart", "add {item_id} to the cart", "get {item_id} into my cart"],
        "add_to_wishlist": ["put {item_id} on the wishlist", "add {item_id} to the wishlist", "wish for {item_id}"],
        "top_up": ["top up the wallet by {amount}", "fill the wallet up with {amount}", "add {amount} to the wallet"],
        "pay": ["pay {contact_id} {amount}", "give {contact_id} {amount}", "send {amount} to {contact_id}"],
        "request_money": [
            "ask {contact_id} for {amount}",
            "request {amount} from {contact_id}",
            "have {contact_id} pay me {amount}",
        ],
        "unlock": ["unlock the {app} app", "open up the {app} app", "unlock {app}"],
        "lock": ["lock the {app} app", "close up the {app} app", "lock {app}"],
    },
    lookups={
        "find_contact": [
            "{name}",
            "my friend {name}",
            "our {name}",
            "{name} in {city}",
            "{name} from {city}",
            "the {name} of {city}",
        ],
        "find_event": ["the {title}", "my {title}", "the event {title}"],
        "find_mail": ["the mail about {subject}", "the {subject} mail", "the mail on {subject}"],
        "find_file": ["the file {name}", "the {name} file", "my file {name}"],
        "find_item": ["the {name}", "a {name}", "one {name}"],
    },
    fields={
        "find_mail.from": [
            "the sender of the mail about {subject}",
            "whoever wrote the mail about {subject}",
            "whoever sent the {subject} mail",
        ],
        "find_contact.city": ["the city of {name}", "the city where {name} lives"],
        "find_event.day": ["the day of the {title}"],
    },
    questions={
        "find_contact.city": ["which city does {name} live in", "where does {name} live", "find the city of {name}"],
        "find_event.day": ["when is the {title}", "what day is the {title}", "tell me the day of the {title}"],
        "find_mail.from": [
            "who wrote the mail about {subject}",
            "who sent the {subject} mail",
            "find the sender of the mail about {subject}",
        ],
        "find_file.size": [
            "how large is the file {name}",
            "what size is the {name} file",
            "tell me the size of the file {name}",
        ],
        "find_item.price": ["what does the {name} cost", "how much is the {name}", "tell me the price of the {name}"],
        "balance.balance": [
            "how much is in the wallet",
            "what does the wallet hold",
            "tell me the balance of the wallet",
        ],
    },
    complete=True,
)
